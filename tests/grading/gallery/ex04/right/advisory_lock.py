# Another right style: a short transaction under an advisory lock, the token made in Python.
# %% ans-sql
CLAIM = RELEASE = DONE = None  # this answer needs more than one statement for some steps
# %% ans-handler
import uuid
from contextlib import asynccontextmanager


@asynccontextmanager
async def locked(pool, key):
    async with pool.connection() as conn:
        await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])
        yield conn


async def claim(pool, key, lock_seconds):
    token = uuid.uuid4()
    async with locked(pool, key) as conn:
        cursor = await conn.execute(
            "SELECT status, locked_until > clock_timestamp() FROM idempotency_key WHERE key = %s FOR UPDATE",
            [key],
        )
        row = await cursor.fetchone()
        if row is None:
            await conn.execute(
                "INSERT INTO idempotency_key VALUES"
                " (%s, 'PENDING', clock_timestamp() + make_interval(secs => %s), %s, NULL)",
                [key, lock_seconds, token],
            )
        elif row[0] == "DONE":
            return None
        elif row[1]:
            raise KeyBusy(key)
        else:
            await conn.execute(
                "UPDATE idempotency_key SET lock_token = %s,"
                " locked_until = clock_timestamp() + make_interval(secs => %s) WHERE key = %s",
                [token, lock_seconds, key],
            )
    return token


async def handle_charge(pool, provider, job, lock_seconds=75):
    key = "charge:" + job.data["order"]
    if (token := await claim(pool, key, lock_seconds)) is None:
        return "skipped"
    try:
        charge = await provider.charge(job.data["order"], job.data["amount"], key)
    except BaseException:
        async with locked(pool, key) as conn:
            await conn.execute(
                "UPDATE idempotency_key SET locked_until = 'epoch' WHERE key = %s AND lock_token = %s",
                [key, token],
            )
        raise
    async with locked(pool, key) as conn:
        cursor = await conn.execute(
            "UPDATE idempotency_key SET status = 'DONE', result = %s WHERE key = %s AND lock_token = %s RETURNING 1",
            [Jsonb({"id": charge.id, "at": charge.at.isoformat()}), key, token],
        )
        if await cursor.fetchone() is None:
            raise ClaimLost(key)
    return "charged"

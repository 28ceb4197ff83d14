# Look first, write afterwards: between the two statements another worker looks as well.
# fails: race=check_then_act
# %% ans-handler
import uuid


async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    key = f"charge:{order}"
    token = await claim(pool, key, lock_seconds)
    if token is None:
        return "skipped"
    try:
        charge = await provider.charge(order=order, amount=amount, key=key)
    except Exception:
        await execute(pool, RELEASE, {"key": key, "token": token})
        raise
    stored = {"key": key, "token": token, "result": Jsonb({"id": charge.id})}
    if await execute(pool, DONE, stored) == 0:
        raise ClaimLost(key)
    return "charged"


async def claim(pool, key, lock_seconds):
    token = uuid.uuid4()
    async with pool.connection() as conn:
        cursor = await conn.execute(
            "SELECT status, locked_until > clock_timestamp() FROM idempotency_key WHERE key = %s", [key]
        )
        row = await cursor.fetchone()
        if row and row[0] == "DONE":
            return None
        if row and row[1]:
            raise KeyBusy(key)
        await conn.execute(
            """
            INSERT INTO idempotency_key (key, status, locked_until, lock_token)
            VALUES (%(key)s, 'PENDING', clock_timestamp() + make_interval(secs => %(seconds)s), %(token)s)
            ON CONFLICT (key) DO UPDATE SET locked_until = excluded.locked_until, lock_token = excluded.lock_token
            """,
            {"key": key, "seconds": lock_seconds, "token": token},
        )
    return token


async def execute(pool, sql, parameters):
    async with pool.connection() as conn:
        return (await conn.execute(sql, parameters)).rowcount

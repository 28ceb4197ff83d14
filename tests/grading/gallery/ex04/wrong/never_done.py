# DONE is never written: each redelivery works again.
# fails: twice=not_done, transient=not_done, race=not_done, done=done_ignored, crash=not_done
# %% ans-handler
async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    key = f"charge:{order}"
    token = await claim(pool, key, lock_seconds)
    if token is None:
        return "skipped"
    try:
        await provider.charge(order=order, amount=amount, key=key)
    except Exception:
        await execute(pool, RELEASE, {"key": key, "token": token})
        raise
    return "charged"


async def claim(pool, key, lock_seconds):
    async with pool.connection() as conn:
        cursor = await conn.execute(CLAIM, {"key": key, "lock_seconds": lock_seconds})
        if row := await cursor.fetchone():
            return row[0]
        cursor = await conn.execute("SELECT status FROM idempotency_key WHERE key = %s", [key])
        row = await cursor.fetchone()
    if row and row[0] == "DONE":
        return None
    raise KeyBusy(key)


async def execute(pool, sql, parameters):
    async with pool.connection() as conn:
        return (await conn.execute(sql, parameters)).rowcount

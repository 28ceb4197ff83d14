# A held key is reported as done: if its holder fails, nobody charges.
# fails: race=busy_as_skipped, token=busy_as_skipped
# %% ans-handler
async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    key = f"charge:{order}"
    try:
        token = await claim(pool, key, lock_seconds)
    except KeyBusy:
        return "skipped"
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

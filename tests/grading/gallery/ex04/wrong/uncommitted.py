# Claim, charge and DONE in one transaction: nobody sees the claim, all wait on it.
# fails: race=uncommitted, token=uncommitted, done=uncommitted, crash=uncommitted
# %% ans-handler
async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    key = f"charge:{order}"
    async with pool.connection() as conn:
        cursor = await conn.execute(CLAIM, {"key": key, "lock_seconds": lock_seconds})
        row = await cursor.fetchone()
        if row is None:
            cursor = await conn.execute("SELECT status FROM idempotency_key WHERE key = %s", [key])
            if (await cursor.fetchone())[0] == "DONE":
                return "skipped"
            raise KeyBusy(key)
        charge = await provider.charge(order=order, amount=amount, key=key)
        cursor = await conn.execute(DONE, {"key": key, "token": row[0], "result": Jsonb({"id": charge.id})})
        if cursor.rowcount == 0:
            raise ClaimLost(key)
    return "charged"

# Charge, then write down that it is done: nobody is kept from charging meanwhile.
# fails: race=charge_first, token=no_pending_row, done=no_pending_row, crash=no_pending_row
# %% ans-handler
async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    key = f"charge:{order}"
    async with pool.connection() as conn:
        cursor = await conn.execute("SELECT 1 FROM idempotency_key WHERE key = %s AND status = 'DONE'", [key])
        if await cursor.fetchone():
            return "skipped"
    charge = await provider.charge(order=order, amount=amount, key=key)
    async with pool.connection() as conn:
        await conn.execute(
            "INSERT INTO idempotency_key VALUES (%s, 'DONE', now(), gen_random_uuid(), %s) ON CONFLICT DO NOTHING",
            [key, Jsonb({"id": charge.id})],
        )
    return "charged"

# The same trap with a table of its own, as the chapter's processed_job.
# fails: transient=key_first, race=busy_as_skipped, token=no_pending_row, done=no_pending_row, crash=key_first, twice=not_done
# %% ans-handler
async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    async with pool.connection() as conn:
        await conn.execute("SELECT pg_advisory_xact_lock(1)")
        await conn.execute("CREATE TABLE IF NOT EXISTS processed_job (key text PRIMARY KEY)")
        cursor = await conn.execute("INSERT INTO processed_job VALUES (%s) ON CONFLICT DO NOTHING", [order])
    if cursor.rowcount == 0:
        return "skipped"
    await provider.charge(order=order, amount=amount, key=f"charge:{order}")
    return "charged"

# The chapter's first trap: write down 'processed', then charge. At-most-once: an error in between loses the charge.
# fails: transient=key_first, race=busy_as_skipped, token=no_pending_row, done=no_pending_row, crash=key_first, twice=no_result
# %% ans-handler
async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    key = f"charge:{order}"
    async with pool.connection() as conn:
        cursor = await conn.execute(
            "INSERT INTO idempotency_key VALUES (%s, 'DONE', now(), gen_random_uuid()) ON CONFLICT DO NOTHING",
            [key],
        )
    if cursor.rowcount == 0:
        return "skipped"
    await provider.charge(order=order, amount=amount, key=key)
    return "charged"

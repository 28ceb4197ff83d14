# What was done is remembered in the process: another process knows nothing of it.
# fails: twice=state_in_memory, transient=not_done, race=charge_first, token=no_pending_row, done=no_pending_row, crash=no_pending_row
# %% ans-handler
done, lock = set(), asyncio.Lock()


async def handle_charge(pool, provider, job, lock_seconds=75):
    order, amount = job.data["order"], job.data["amount"]
    if lock.locked():
        raise KeyBusy(order)
    async with lock:
        if order in done:
            return "skipped"
        await provider.charge(order=order, amount=amount, key=f"charge:{order}")
        done.add(order)
        return "charged"

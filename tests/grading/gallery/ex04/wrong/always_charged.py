# Says what the checks want to hear and does nothing.
# fails: twice=nothing_charged, transient=error_swallowed, race=nothing_charged, token=nothing_charged, done=nothing_charged, crash=nothing_charged
# %% ans-handler
async def handle_charge(pool, provider, job, lock_seconds=75):
    return "charged"

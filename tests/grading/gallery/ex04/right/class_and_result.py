# A right answer built on a class, that returns constants and keeps the whole charge.
# %% ans-handler
class Guard:
    def __init__(self, pool, key, lock_seconds):
        self.pool, self.key, self.lock_seconds, self.token = pool, key, lock_seconds, None

    async def run(self, sql, **values):
        async with self.pool.connection() as conn:
            cursor = await conn.execute(sql, {"key": self.key, "token": self.token, **values})
            return await cursor.fetchone() if cursor.description else cursor.rowcount

    async def __aenter__(self):
        row = await self.run(CLAIM, lock_seconds=self.lock_seconds)
        if row:
            self.token = row[0]
        elif (await self.run("SELECT status FROM idempotency_key WHERE key = %(key)s")) == ("PENDING",):
            raise KeyBusy(self.key)
        return self

    async def __aexit__(self, kind, error, trace):
        if kind is not None and kind is not ClaimLost and self.token:
            await self.run(RELEASE)


async def handle_charge(pool, provider, job, lock_seconds=75):
    async with Guard(pool, "charge:" + job.data["order"], lock_seconds) as guard:
        if guard.token is None:
            return "skipped"
        charge = await provider.charge(key=guard.key, **job.data)
        if not await guard.run(DONE, result=Jsonb({"id": charge.id})):
            raise ClaimLost(guard.key)
        return "charged"

"""The fault explorer: every fault at every effect, and every interleaving of two workers, on real servers.

    async with FaultLab() as lab:
        await lab.install(create_tables)
        report = await explore(lab, [Actor("A", handler)], invariant, faults=1)
        print(report.verdict, report.table(), sep="\\n")

Handlers are unchanged psycopg and redis-py code; between them and the real servers stand proxies, where a
scheduler decides who moves next and what fails. Time is virtual.
"""

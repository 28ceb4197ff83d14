"""A shop's orders: an API that answers at once, and a worker that does the slow part.

python -m examples.orders            # both, on the servers of QLAB_REDIS_URL and QLAB_PG_DSN, else on its own
"""

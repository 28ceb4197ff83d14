"""PostgreSQL patterns for background work (psycopg 3, asyncio). They know neither Redis nor the queue."""

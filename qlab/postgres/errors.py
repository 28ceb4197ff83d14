"""What can go wrong with the PostgreSQL patterns, by what the caller can do about it."""

from qlab.errors import QlabError


class PostgresError(QlabError):
    """Base of the errors of `qlab.postgres`."""


class ConnectionUnusable(PostgresError):
    """The connection or pool cannot be used for this step: closed, in a failed or in an open transaction."""


class NotInstalled(PostgresError):
    """The table is missing, or not of the shape that this version needs: run `install()` once."""


class IdempotencyError(PostgresError):
    """Base of what can be wrong with an idempotency key."""


class KeyBusy(IdempotencyError):
    """Somebody else is working under this key. Try again after `retry_after` seconds (None: not known)."""

    def __init__(self, key: str, retry_after: float | None = None) -> None:
        wait = "" if retry_after is None else f"; its lock ends in {retry_after:.1f} s"
        super().__init__(f"key {key!r} is being worked on{wait}; try again later")
        self.key = key
        self.retry_after = retry_after


class KeyMismatch(IdempotencyError):
    """The key was used before for another request. Nothing was run; another try cannot help."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key {key!r} was used for another request; use one key for one request")
        self.key = key


class ClaimLost(IdempotencyError):
    """The lock ran out and somebody else took the key over: this result was not stored.

    Let it fail the job, so that the job comes again: whoever took the key may have died since.
    """

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the claim on key {key!r} is lost: the lock ran out, another took it; nothing stored"
        )
        self.key = key

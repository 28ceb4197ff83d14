"""The one exception of this package."""


class ServerError(RuntimeError):
    """A server could not be started or reached. The message is one sentence for a person: what and what to do.

    It never contains a password.
    """

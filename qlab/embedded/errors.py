"""The one exception of this package."""


class ServerError(RuntimeError):
    """A server could not be started or reached. The message says in a sentence what is wrong and what to do.

    It never contains a password.
    """

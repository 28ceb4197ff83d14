"""What can go wrong with an exploration itself, as opposed to a handler that fails its invariant."""

from qlab.errors import QlabError


class ExplorerError(QlabError):
    """The exploration cannot go on; the message says why and what to do."""


class NonDeterministic(ExplorerError):
    """The same moves led to something else the second time. The message says what differed."""


class Unsupported(ExplorerError):
    """A handler uses something that the explorer cannot control, and would otherwise silently miss."""


class Unresponsive(ExplorerError):
    """An actor neither asked a server for anything nor came to rest."""

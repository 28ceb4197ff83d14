"""Names of the keys of one queue, and the rules for names."""

import os
import re

SCHEMA_VERSION = "1"

SUFFIXES = {"job": "job:", "waiting_children": "waiting-children"}
"""What the key of a script's local ends with, where that is not the name of the local."""

_QUEUE_NAME = re.compile(r"[^\s{}:*?\[\]\\]{1,100}")
_PREFIX = re.compile(r"X*(\{X+\})?X*".replace("X", r"[^\s{}*?\[\]\\]"))
_JOB_ID = re.compile(r"[^\s{}:]{1,200}")


def check_queue_name(name: object) -> str:
    """Return `name` if it can be a queue's name. Raises ValueError with the rule that it breaks."""
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise ValueError(
            f"queue name {name!r}: use 1 to 100 characters without spaces, ':', '{{', '}}' or glob signs; "
            "a hyphen reads well, as in 'emails-critical'"
        )
    return _utf8(name, "queue name")


def check_job_id(job_id: object, what: str = "job id") -> str:
    """Return `job_id` if it can name a job (or `what` else). Raises ValueError with the rule it breaks."""
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
        raise ValueError(
            f"{what} {job_id!r}: use a string of 1 to 200 characters without spaces, ':', '{{' or '}}', "
            "as in 'outbox-42'"
        )
    return _utf8(job_id, what)


def _utf8(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} {text!r} is not valid Unicode (a lone surrogate)") from None
    return text


class Keys:
    """The keys of one queue: `qlab:{emails}:waiting` and so on.

    The braces are the hash tag of Redis Cluster: all keys of a queue live in one slot, so one script may
    touch them all (Redis documentation, "Redis cluster specification", hash tags). Braces in the prefix,
    `{shop}:{emails}:waiting`, come first and so put all queues of the prefix into one slot.
    """

    def __init__(self, queue: str, prefix: str | None = None) -> None:
        prefix = prefix or os.environ.get("QLAB_PREFIX") or "qlab"
        if not re.fullmatch(_PREFIX, prefix) or len(prefix) > 100:
            raise ValueError(
                f"prefix {prefix!r}: use 1 to 100 characters without spaces, braces or glob signs; "
                "one part may stand in braces, as in '{shop}': then all queues share a slot of a cluster"
            )
        self.prefix = prefix
        self.queue = check_queue_name(queue)
        self.base = f"{prefix}:{{{queue}}}:"
        self.hash_tag = self.base[self.base.index("{") + 1 : self.base.index("}")]
        self._full: dict[tuple[str, ...], list[str]] = {}

    def __getitem__(self, name: str) -> str:
        """The full key of `name`, for example `keys["waiting"]`."""
        return self.base + name

    def job(self, job_id: str) -> str:
        """The key of the hash of one job."""
        return f"{self.base}job:{job_id}"

    def full(self, names: tuple[str, ...]) -> list[str]:
        """The full keys of `names` for a script; `job` is what the keys of all jobs begin with."""
        if names not in self._full:
            self._full[names] = [self[SUFFIXES.get(name, name)] for name in names]
        return self._full[names]

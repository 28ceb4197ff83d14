"""Strict JSON: what a handler receives equals what the producer gave, or the producer is told at once.

The text is made here once and never decoded in a script, so Redis cannot change it (a Lua script would
turn an empty list into an object and round large integers).
"""

import json
from typing import Any

from qlab.errors import PayloadError

DEFAULT_LIMIT = 64 * 1024
_MAX_TEXT = 16_000
_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()


def encode(value: Any, *, what: str = "data", limit: int = DEFAULT_LIMIT) -> str:
    """Return `value` as JSON text of at most `limit` bytes.

    Raises PayloadError when the value is not JSON, is too big, or would arrive changed (a tuple becomes a
    list, a key 1 becomes "1").
    """
    text = encode_result(value, what=what, limit=limit)
    if _DECODER.raw_decode(text)[0] != value:
        raise PayloadError(
            f"{what} would arrive changed: JSON turns tuples into lists and keys into strings; "
            "use lists and string keys"
        )
    return text


def encode_result(value: Any, *, what: str = "result", limit: int = DEFAULT_LIMIT) -> str:
    """As `encode`, but a tuple may become a list: the work of the handler is done, so be lenient."""
    if value is None:
        return "null"  # what most handlers return
    try:
        text = str(value) if type(value) is int else _STRICT.encode(value)
        size = len(text.encode())
    except UnicodeEncodeError:
        raise PayloadError(f"{what} holds a lone surrogate, which is not valid Unicode") from None
    except RecursionError:
        raise PayloadError(f"{what} is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise PayloadError(f"{what} is not strict JSON: {error}") from None
    if size > limit:
        raise PayloadError(
            f"{what} takes {size} bytes, more than the limit of {limit}; store it and pass its id"
        )
    return text


def decode(text: str) -> Any:
    """The value of a text made by `encode`."""
    return _DECODER.decode(text)


def error_text(error: BaseException) -> str:
    """`TypeName: message`, never raising, valid UTF-8, at most 16,000 characters."""
    try:
        message = str(error)
    except BaseException as broken:  # a SystemExit, too, is only about this text
        message = f"(its text could not be read: {type(broken).__name__})"
    name = type(error).__name__
    return clean_text(f"{name}: {message}" if message else name)


def clean_text(text: str, limit: int = _MAX_TEXT) -> str:
    """`text` cut to `limit` characters (16,000), lone surrogates and NUL escaped."""
    if len(text) > limit:
        text = text[: limit - 20] + "... (cut)"
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")

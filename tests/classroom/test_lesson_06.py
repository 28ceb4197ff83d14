"""The classifier that lesson 06 shows is the one tested here: its cell is read from the notebook and run."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import psycopg
import pytest
import redis
from psycopg_pool import PoolTimeout

from qlab import DelayedError, PayloadError
from qlab.postgres.errors import KeyBusy

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "06_job_design.ipynb"
REQUEST = httpx.Request("POST", "http://partner/")


@pytest.fixture(scope="module")
def kind_of() -> Callable[[Exception], str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    source = next("".join(cell["source"]) for cell in cells if cell["id"] == "classify")
    names = {"httpx": httpx, "psycopg": psycopg}
    exec(compile(source, "classify", "exec"), names)
    return names["kind_of"]


def status(code: int) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(code))


@pytest.mark.parametrize("code", [408, 409, 423, 425, 429, 500, 502, 503, 504])
def test_a_status_that_passes_is_tried_again(kind_of: Callable[[Exception], str], code: int):
    assert kind_of(status(code)) == "transient"


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 413, 415, 422])
def test_any_other_4xx_would_be_the_same_again(kind_of: Callable[[Exception], str], code: int):
    assert kind_of(status(code)) == "permanent"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(), ConnectionRefusedError(), TimeoutError(), httpx.ReadTimeout(""),
        httpx.ConnectError(""), redis.ConnectionError(), redis.TimeoutError(),
        psycopg.errors.QueryCanceled(), psycopg.errors.DeadlockDetected(),
        psycopg.errors.SerializationFailure(), psycopg.errors.AdminShutdown(), PoolTimeout(), KeyBusy("k"),
        RuntimeError("nobody knows"), DelayedError(1),
    ],
    ids=repr,
)  # fmt: skip
def test_what_may_pass_and_what_nobody_knows_is_tried_again(
    kind_of: Callable[[Exception], str], error: Exception
):
    assert kind_of(error) == "transient"


@pytest.mark.parametrize(
    "error",
    [
        json.JSONDecodeError("", "", 0), ValueError(), KeyError("to"), PayloadError(),
        UnicodeDecodeError("utf-8", b"", 0, 1, ""), psycopg.errors.ForeignKeyViolation(),
        psycopg.errors.NotNullViolation(), psycopg.errors.CheckViolation(),
        psycopg.errors.InvalidTextRepresentation(),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_bad_data_is_not_tried_again(kind_of: Callable[[Exception], str], error: Exception):
    assert kind_of(error) == "permanent"

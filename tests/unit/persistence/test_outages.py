"""Outages as the pool sees them, and JSON of rows."""

import orjson
import psycopg
import pytest
from psycopg_pool import PoolTimeout

from libs.contracts.errors import ServiceUnavailable, StoreBusy, StoreUnavailable
from libs.persistence import as_json, is_outage
from libs.persistence._errors import is_contention


@pytest.mark.parametrize(
    "problem",
    [
        PoolTimeout("busy"),
        psycopg.OperationalError("connection refused"),
        psycopg.errors.AdminShutdown("bye"),
        psycopg.errors.CannotConnectNow("starting"),
        psycopg.errors.DiskFull("full"),
        psycopg.errors.DeadlockDetected("again"),
        psycopg.errors.SerializationFailure("again"),
        psycopg.InterfaceError("the connection is closed"),
        StoreUnavailable("away"),
        ServiceUnavailable("away"),
        StoreBusy("held"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_outages(problem: Exception) -> None:
    assert is_outage(problem)


def test_contention_is_an_outage_but_not_unreachable() -> None:
    away = [psycopg.OperationalError("refused"), psycopg.errors.AdminShutdown("bye"), PoolTimeout("busy")]
    locked = [
        psycopg.errors.LockNotAvailable("held"),
        psycopg.errors.DeadlockDetected("each other's"),
        StoreBusy("held"),
    ]
    assert [is_contention(problem) for problem in (*away, *locked)] == [False, False, False, True, True, True]
    assert all(map(is_outage, locked)), "whoever can only try again does so"


@pytest.mark.parametrize(
    "problem",
    [
        psycopg.errors.UniqueViolation("twice"),
        psycopg.errors.QueryCanceled("too slow"),
        psycopg.errors.ProgramLimitExceeded("index row size"),
        psycopg.errors.UndefinedTable("which"),
        psycopg.DataError("what"),
        RuntimeError("a bug"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_failures_of_statements_are_no_outages(problem: Exception) -> None:
    assert not is_outage(problem)


def test_a_nul_character_becomes_the_replacement_character() -> None:
    assert orjson.loads(as_json({"text": "a\x00b"})) == {"text": "a\ufffdb"}


def test_the_written_escape_is_kept_as_it_is() -> None:
    value = {"text": "a\\u0000b", "both": "\\\x00\\\\u0000"}
    assert orjson.loads(as_json(value)) == {"text": "a\\u0000b", "both": "\\\ufffd\\\\u0000"}

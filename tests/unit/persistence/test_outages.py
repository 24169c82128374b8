"""Which failures of the database are nobody's fault."""

import psycopg
import pytest
from psycopg_pool import PoolTimeout

from libs.persistence import is_outage


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
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_an_outage_passes(problem: Exception) -> None:
    assert is_outage(problem)


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
def test_a_statement_at_fault_does_not(problem: Exception) -> None:
    assert not is_outage(problem)

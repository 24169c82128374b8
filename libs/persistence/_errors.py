"""Detects database outages, retries until they're over, and removes users' values from PostgreSQL's errors."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import psycopg
import structlog
from psycopg_pool import PoolClosed, PoolTimeout

from libs.contracts.errors import ServiceUnavailable, StoreBusy, StoreUnavailable
from libs.retry import RetryPolicy

T = TypeVar("T")
_log = structlog.get_logger("database")
_RETRIES: Final = RetryPolicy(first=1.0, longest=1.0)
_DATA_EXCEPTIONS: Final = "22"
_CONTENTION: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    StoreBusy,
)
# The server is now read-only, has ended a transaction that was idle while this process was frozen, or lacks our
# prepared statements.
_STALE: Final = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)


def is_stale(problem: BaseException) -> bool:
    """Returns whether the connection can't be used anymore, although it may look open."""
    return isinstance(problem, _STALE)


def is_outage(problem: BaseException) -> bool:
    """Returns whether a store or service caused the failure, so that a retry may succeed."""
    if isinstance(problem, (StoreUnavailable, ServiceUnavailable, PoolTimeout, PoolClosed, *_STALE)):
        return True
    if isinstance(problem, psycopg.errors.QueryCanceled | psycopg.errors.ProgramLimitExceeded):
        return False
    return isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError)


def is_contention(problem: BaseException) -> bool:
    """Returns whether the work failed because other transactions held the required locks.

    ``is_outage`` is true for these failures, too. But the work itself may be the cause, for example if it always
    deadlocks.
    """
    # An engine that stores its data in a database chains the database's error as the cause.
    return isinstance(problem, _CONTENTION) or isinstance(problem.__cause__, _CONTENTION)


def outage_of(problem: BaseException) -> StoreUnavailable | None:
    """Converts an outage to ``StoreUnavailable``. Returns None for other errors."""
    if isinstance(problem, StoreUnavailable | ServiceUnavailable) or not is_outage(problem):
        return None
    kind = StoreBusy if is_contention(problem) else StoreUnavailable
    return kind(str(problem).strip() or type(problem).__name__)


def is_unreachable(problem: BaseException) -> bool:
    """Returns whether the failure is an outage and not lock contention."""
    return is_outage(problem) and not is_contention(problem)


async def retry_until_available(
    transaction: Callable[[], Awaitable[T]],
    *,
    when: Callable[[BaseException], bool] = is_unreachable,
) -> T:
    """Retries a transaction until PostgreSQL can be reached, or until the task is cancelled.

    ``transaction`` must be idempotent, since the acknowledgement of a commit can get lost. Failures that don't satisfy
    ``when`` are raised immediately.
    """

    def log(problem: Exception, _attempt: int) -> None:
        _log.warning("database.unreachable", problem=str(problem).strip())

    return await _RETRIES.run(transaction, when=when, before_sleep=log)


def redact_values(problem: BaseException) -> None:
    """Reduces each database error in an exception chain to its primary message.

    PostgreSQL's errors can quote rows and values. Logs and dead-lettered messages must not contain users' data.
    """
    current: BaseException | None = problem
    while current is not None:
        if isinstance(current, psycopg.Error) and current.diag.message_primary:
            current.args = (_message(current), *current.args[1:])
        current = current.__cause__ or current.__context__


def _message(problem: psycopg.Error) -> str:
    message = problem.diag.message_primary or ""
    if (problem.diag.sqlstate or "").startswith(_DATA_EXCEPTIONS):
        # Errors of this class quote a value. Other errors quote the name of a table or constraint.
        return message.split('"', 1)[0].rstrip(" :")
    return message

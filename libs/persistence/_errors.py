"""Errors of PostgreSQL: outages, retries through them, and messages without users' values."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import psycopg
import structlog
from psycopg_pool import PoolClosed, PoolTimeout

from libs.contracts.errors import StoreBusy, StoreUnavailable
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
# The server or the connection is another one than before: one that only reads, one that was idle for too long within
# its transaction while this process was frozen, one that knows nothing of the statements prepared here.
_STALE: Final = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)


def is_stale(problem: BaseException) -> bool:
    """Whether the connection is of no use any more, though it may look alive: another one may do."""
    return isinstance(problem, _STALE)


def is_outage(problem: BaseException) -> bool:
    """Whether the database, not the statement, is at fault, so that the same work may succeed later."""
    if isinstance(problem, (StoreUnavailable, PoolTimeout, PoolClosed, *_STALE)):
        return True
    if isinstance(problem, psycopg.errors.QueryCanceled | psycopg.errors.ProgramLimitExceeded):
        return False
    return isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError)


def is_contention(problem: BaseException) -> bool:
    """Whether other transactions held the locks that the work needed.

    ``is_outage`` is true for these, too. But the work itself may cause them: a message that meets a deadlock every
    time would be retried for ever.
    """
    return isinstance(problem, _CONTENTION)


def outage_of(problem: BaseException) -> StoreUnavailable | None:
    """The outage that the database's error is, in the words of contracts; None for other errors."""
    if isinstance(problem, StoreUnavailable) or not is_outage(problem):
        return None
    kind = StoreBusy if is_contention(problem) else StoreUnavailable
    return kind(str(problem).strip() or type(problem).__name__)


def is_unreachable(problem: BaseException) -> bool:
    """Whether it is an outage and no contention."""
    return is_outage(problem) and not is_contention(problem)


async def retry_until_available(
    transaction: Callable[[], Awaitable[T]],
    *,
    when: Callable[[BaseException], bool] = is_unreachable,
    policy: RetryPolicy = _RETRIES,
) -> T:
    """Retries a transaction until PostgreSQL is reachable, however long that takes; cancel the task to give up.

    ``transaction`` must be safe to repeat: the answer to a commit can get lost. Failures for which ``when`` is false
    are raised at once.
    """

    def log(problem: Exception, _attempt: int) -> None:
        _log.warning("database.unreachable", problem=str(problem).strip())

    return await policy.run(transaction, when=when, before_sleep=log)


def redact_values(problem: BaseException) -> None:
    """Shortens the database's errors in a chain of exceptions to their primary message.

    PostgreSQL quotes whole rows in an error's details, and values in some messages. Errors end up in logs and dead
    letters, where users' data must not be.
    """
    current: BaseException | None = problem
    while current is not None:
        if isinstance(current, psycopg.Error) and current.diag.message_primary:
            current.args = (_message(current), *current.args[1:])
        current = current.__cause__ or current.__context__


def _message(problem: psycopg.Error) -> str:
    message = problem.diag.message_primary or ""
    if (problem.diag.sqlstate or "").startswith(_DATA_EXCEPTIONS):
        # Errors of this class quote a value; others the name of a table or a constraint.
        return message.split('"', 1)[0].rstrip(" :")
    return message

"""Removes users' values from PostgreSQL's errors."""

import psycopg

_DATA_EXCEPTIONS = "22"


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

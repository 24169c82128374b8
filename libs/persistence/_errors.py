"""What the database's errors say, and what they must not repeat."""

import psycopg

_DATA_EXCEPTIONS = "22"


def leave_out_values(problem: BaseException) -> None:
    """Shorten the database's errors in a chain of exceptions to what was wrong.

    PostgreSQL quotes whole rows in an error's details, and values in some messages. Errors end up in logs and with
    dead letters, where what users wrote has no place.
    """
    current: BaseException | None = problem
    while current is not None:
        if isinstance(current, psycopg.Error) and current.diag.message_primary:
            current.args = (_what_was_wrong(current), *current.args[1:])
        current = current.__cause__ or current.__context__


def _what_was_wrong(problem: psycopg.Error) -> str:
    message = problem.diag.message_primary or ""
    if (problem.diag.sqlstate or "").startswith(_DATA_EXCEPTIONS):
        # Here the quotes are around what was given; elsewhere around the name of a table or a constraint.
        return message.split('"', 1)[0].rstrip(" :")
    return message

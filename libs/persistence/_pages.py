"""Reads pages of lists by offset or by cursor."""

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from libs.contracts.errors import invalid_cursor
from libs.contracts.pages import COUNTED, Page
from libs.persistence._database import Connection, fetch_records, fetch_value

_KEY: Final = "page_key_"
_BIGGEST: Final = 2**63 - 1
# Long lists aren't counted again until these monotonic times. Counting ten thousand rows takes longer than reading a
# page.
_LONG_LISTS: Final[dict[tuple[str, str, str], float]] = {}
_LONG_SECONDS: Final = 30.0
_MOST_LONG_LISTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Order:
    """A total order of rows, given by columns and their PostgreSQL types.

    With an index on the filtered columns followed by these columns, every page takes the same time.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    descending: bool = True

    @property
    def by(self) -> str:
        direction = " DESC" if self.descending else ""
        return "ORDER BY " + ", ".join(f"{column}{direction}" for column in self.columns)

    @property
    def keys(self) -> str:
        return ", ".join(f"({column})::text AS {_KEY}{number}" for number, column in enumerate(self.columns))

    def beyond(self, cursor: str | None) -> tuple[str, dict[str, str]]:
        """Returns the SQL condition for rows after the cursor, and its parameters. Raises ``ValidationFailed``."""
        if cursor is None:
            return "", {}
        values = {f"{_KEY}{number}": value for number, value in enumerate(_values(cursor, self.types))}
        placeholders = ", ".join(f"%({name})s::{kind}" for name, kind in zip(values, self.types, strict=True))
        return f" AND ({', '.join(self.columns)}) {'<' if self.descending else '>'} ({placeholders})", values


NEWEST_FIRST: Final = Order(("created_at", "id"), ("timestamptz", "text"))


async def fetch_page(
    connection: Connection,
    columns: str,
    source: str,
    order: Order,
    parameters: Mapping[str, Any],
    *,
    limit: int,
    offset: int = 0,
    cursor: str | None = None,
    counted: str | None = None,
    count: int | None = COUNTED,
) -> Page[dict[str, Any]]:
    """Reads a page of ``SELECT columns source``. ``source`` is SQL from ``FROM`` to the end of the ``WHERE`` condition.

    ``offset`` counts from the cursor. ``counted`` is a cheaper source with the same number of rows. ``count`` is the
    maximum number of rows to count, or None for all. Raises ``ValidationFailed`` if the cursor is invalid.
    """
    beyond, cursor_values = order.beyond(cursor)
    rows = await fetch_records(
        connection,
        f"SELECT {columns}, {order.keys} {source}{beyond} {order.by} LIMIT %(page_limit)s OFFSET %(page_offset)s",
        {**parameters, **cursor_values, "page_limit": limit + 1, "page_offset": offset},
    )
    keys = [tuple(row.pop(f"{_KEY}{number}") for number in range(len(order.columns))) for row in rows]
    following = _cursor(keys[limit - 1]) if len(rows) > limit else None
    if cursor is None and following is None and (rows or not offset):
        total = offset + len(rows)
    else:
        total = await _total(connection, counted or source, parameters, count)
    known = total if count is None else min(total, count)
    return Page(rows[:limit], known, known == total, following)


async def _total(connection: Connection, source: str, parameters: Mapping[str, Any], count: int | None) -> int:
    """Counts up to ``count + 1`` rows of the source."""
    if count is None:
        return int(await fetch_value(connection, f"SELECT count(*) {source}", parameters))
    list_of = (connection.info.dbname, source, repr(sorted(parameters.items())))
    if _LONG_LISTS.get(list_of, 0.0) > time.monotonic():
        return count + 1
    entries = f"SELECT count(*) FROM (SELECT {source} LIMIT {count + 1}) AS entries"
    total = int(await fetch_value(connection, entries, parameters))
    if total > count:
        while len(_LONG_LISTS) >= _MOST_LONG_LISTS:
            del _LONG_LISTS[next(iter(_LONG_LISTS))]
        _LONG_LISTS[list_of] = time.monotonic() + _LONG_SECONDS
    return total


def _cursor(values: tuple[str, ...]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(values)).rstrip(b"=").decode()


def _values(cursor: str, types: tuple[str, ...]) -> list[str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        values: list[str] = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if len(values) != len(types) or not all(isinstance(value, str) for value in values):
            raise ValueError(cursor)
        for value, kind in zip(values, types, strict=True):
            _CHECKS[kind](value)
    except (ValueError, TypeError, binascii.Error) as problem:
        raise invalid_cursor() from problem
    return values


def _check_number(value: str) -> None:
    if not -_BIGGEST <= int(value) <= _BIGGEST:
        raise ValueError(value)


def _check_text(value: str) -> None:
    if "\x00" in value:  # PostgreSQL rejects NUL
        raise ValueError(value)


_CHECKS: Final[dict[str, Callable[[str], object]]] = {
    "timestamptz": datetime.fromisoformat,
    "bigint": _check_number,
    "text": _check_text,
    "uuid": UUID,
}

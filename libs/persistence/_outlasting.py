"""Endings of long work, which an outage must not cost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from libs.persistence._database import is_contention, is_outage

_log = structlog.get_logger("database")
T = TypeVar("T")
_PAUSE_SECONDS: Final = 1.0


async def outlast(transaction: Callable[[], Awaitable[T]]) -> T:
    """Tries again until the database answers, however long that takes; cancel it to give up.

    ``transaction`` must be safe to repeat: the answer to a commit can get lost. Raises what is no outage.
    """
    while True:
        try:
            return await transaction()
        except Exception as problem:
            if not is_outage(problem) or is_contention(problem):
                raise
            _log.warning("database.unreachable", problem=str(problem).strip())
        await asyncio.sleep(_PAUSE_SECONDS)

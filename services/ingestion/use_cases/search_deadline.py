"""Time limit of a search."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from libs.contracts.errors import ServiceUnavailable

# Callers of the internal API wait for 5 s; after that they could only say that ingestion does not answer.
_SECONDS: Final = 4.0
RETRY_AFTER: Final = 5


class SearchDeadline:
    """Ends a search before its caller gives up, and says which part of it did not answer."""

    def __init__(self) -> None:
        self._ends = asyncio.get_running_loop().time() + _SECONDS

    @asynccontextmanager
    async def waiting_for(self, part: str) -> AsyncIterator[None]:
        """Raises ``ServiceUnavailable`` at the deadline."""
        try:
            async with asyncio.timeout_at(self._ends):
                yield
        except TimeoutError as problem:
            message = f"The search failed: {part} does not answer in time."
            raise ServiceUnavailable(message, retry_after=RETRY_AFTER) from problem

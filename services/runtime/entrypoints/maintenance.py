"""Work that a clock starts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

_PAUSE_SECONDS: Final = 2.0


async def keep_expiring(expire_sessions: Callable[[], Awaitable[int]]) -> None:
    """Removes expired sessions, with a pause when there are none left, until cancelled."""
    while True:
        if not await expire_sessions():
            await asyncio.sleep(_PAUSE_SECONDS)

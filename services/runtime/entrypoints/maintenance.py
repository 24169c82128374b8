"""Runs scheduled maintenance."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

_BREATH_SECONDS: Final = 0.01
_HOUR_SECONDS: Final = 3600.0


async def keep_retention(remove_old_sessions: Callable[[], Awaitable[bool]]) -> None:
    """Removes sessions past their retention period, every hour until cancelled."""
    while True:
        while await remove_old_sessions():
            # Pause between batches, so that turns take precedence. A pass may take an hour.
            await asyncio.sleep(_BREATH_SECONDS)
        await asyncio.sleep(_HOUR_SECONDS)

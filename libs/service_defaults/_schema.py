"""Delays the start of a service until its database has this release's schema."""

import asyncio
from pathlib import Path
from typing import Final

import structlog

from libs.persistence import is_migrated

_log = structlog.get_logger("service")
_LOOK_SECONDS: Final = 1.0
BEHIND: Final = "the database has not been migrated to this release"


class AwaitedSchema:
    """Waits for migrations that another process carries out.

    A database ahead of the program is as good: migrations only add, and an older release goes on while a newer one is
    rolled out.
    """

    def __init__(self, service: str, migrations: Path) -> None:
        self._service = service
        self._migrations = migrations
        self._behind = False

    @property
    def problem(self) -> str:
        """The reason for waiting; empty when there is none."""
        return BEHIND if self._behind else ""

    async def wait(self, url: str) -> None:
        """Returns once the database has this release's newest revision; raises IncompatibleSchema, and outages."""
        while not await asyncio.to_thread(is_migrated, url, self._migrations):
            if not self._behind:
                _log.warning("database.behind", problem=BEHIND, remedy=f"python -m services.{self._service} migrate")
            self._behind = True
            await asyncio.sleep(_LOOK_SECONDS)
        if self._behind:
            _log.info("database.caught_up")
        self._behind = False

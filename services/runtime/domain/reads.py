"""What callers may see of sessions, turns and messages."""

from __future__ import annotations

from typing import Protocol

from libs.contracts.api.sessions import MessagePage, Session, SessionPage, Turn
from libs.contracts.identity import Identity


class SessionReads(Protocol):
    """Whatever the caller may not see is as if it did not exist: None, and left out of lists."""

    async def sessions(self, caller: Identity, *, limit: int, offset: int) -> SessionPage:
        """The caller's sessions, or the company's for who may read those; newest first."""
        ...

    async def session(self, session_id: str, caller: Identity) -> Session | None: ...

    async def messages(self, session_id: str, caller: Identity, *, limit: int, offset: int) -> MessagePage | None:
        """Oldest first, a reply right after its question."""
        ...

    async def turn(self, session_id: str, turn_id: str, caller: Identity) -> Turn | None: ...

    async def knows_command(self, command_id: str, company_id: str) -> bool:
        """Whether that company's command has a turn, or was refused one."""
        ...

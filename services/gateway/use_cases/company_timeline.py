"""Reads and follows the numbered events of a company, and of one of its sessions."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from services.gateway.domain.accounts import Principal
from services.gateway.domain.ports import Timeline
from services.gateway.domain.session_stream import TURN_ENDS, SessionCursor, SessionMessage
from services.gateway.domain.timeline import TimelineEvent, TimelineFilter, TimelinePage
from services.gateway.domain.timeline_reading import TimelineQuery
from services.gateway.use_cases.timeline.session_follower import SessionFollower
from services.gateway.use_cases.timeline.session_texts import SessionTexts
from services.gateway.use_cases.timeline.timeline_feeds import TimelineFeeds
from services.gateway.use_cases.turn_history import TurnHistory

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class CompanyTimeline:
    """The company's timeline, of the events that the caller may see. Methods raise ``PermissionDenied``."""

    timeline: Timeline
    feeds: TimelineFeeds
    texts: SessionTexts
    history: TurnHistory

    async def head(self, caller: Principal) -> int:
        """The newest position."""
        return await self.timeline.head(caller.identity.company_id)

    async def page(self, caller: Principal, query: TimelineQuery, *, after: int, limit: int) -> TimelinePage:
        return await self.timeline.page(query.visible_to(caller), after=after, limit=limit)

    async def page_back(
        self, caller: Principal, query: TimelineQuery, *, before: int | None, limit: int
    ) -> TimelinePage:
        """A page from the end, or from a position, newest first."""
        return await self.timeline.page_back(query.visible_to(caller), before=before, limit=limit)

    async def follow(
        self, caller: Principal, query: TimelineQuery, *, after: int | None
    ) -> AsyncGenerator[Sequence[TimelineEvent] | int, None]:
        """Yields the events after a position and then those that come, each once, in order, those that are there
        together.

        Where the past ends, after a page of the past without an event that is wanted, and after every 15 s without one,
        it yields the position that it has come to. Without ``after`` it begins with what comes from now on.

        Raises ``AuthenticationFailed`` when the credential has expired, and ``ServiceUnavailable`` when the reader is
        too slow or this replica ends.
        """
        where = query.visible_to(caller)
        position, has_more = after, after is not None
        # Without the feed, whose queue would overflow while somebody reads on from long ago.
        while has_more and position is not None:
            page = await self.timeline.page(where, after=position, limit=_PAGE)
            if page.events:
                yield page.events
            position, has_more = page.next, page.has_more
            if has_more and not page.events:
                # Of millions of events there may be none for this reader, who would hear nothing for minutes.
                yield position
            # A stream lasts: none keeps its last page of the past.
            del page
        async with self.feeds.joined(where, expires_at=caller.expires_at) as reader:
            if position is None:
                position = reader.joined_at
            while position < reader.joined_at:
                page = await self.timeline.page(where, after=position, limit=_PAGE)
                if page.events:
                    yield page.events
                # What comes after the page is after `joined_at`, and so in the queue.
                position = page.next if page.has_more else max(page.next, reader.joined_at)
                del page
            yield position
            while True:
                followed = await reader.next()
                if isinstance(followed, int):
                    position = max(position, followed)
                    yield position
                elif new := [
                    event for event in followed if isinstance(event, TimelineEvent) and event.position > position
                ]:
                    position = new[-1].position
                    yield new

    async def follow_session(
        self,
        caller: Principal,
        session_id: str,
        after: SessionCursor,
        *,
        from_running_turn: bool = False,
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> AsyncGenerator[SessionMessage, None]:
        """Follows a session: its events in the order of the timeline, the texts of its turns at their places.

        ``from_running_turn``: from the start of the turn that runs, if one does, instead of ``after`` the cursor.
        ``is_own`` tells turns whose texts are sent anyway, because the reader began them.

        Raises as ``follow`` does, and ``ServiceUnavailable`` when something cannot be found for a minute.
        """
        where = TimelineQuery(session_id=session_id).visible_to(caller)
        if from_running_turn:
            after = await self._before_running_turn(where) or after
        follower = SessionFollower(self.timeline, self.history, caller.identity, where, is_own, after)
        async for message in follower.past():
            yield message
        async with self.feeds.joined(where, expires_at=caller.expires_at) as reader:
            with self.texts.joined(reader, where.company_id, session_id):
                async for message in follower.past(until=reader.joined_at):
                    yield message
                async for message in follower.follow(reader):
                    yield message

    async def _before_running_turn(self, where: TimelineFilter) -> SessionCursor | None:
        started = await self.timeline.newest(replace(where, types=("turn.started",)))
        if started is None:
            return None
        of_turn = replace(where, turn_id=started.turn_id, types=tuple(TURN_ENDS))
        ended = await self.timeline.page(of_turn, after=started.position, limit=1)
        return None if ended.events else SessionCursor(started.position - 1)

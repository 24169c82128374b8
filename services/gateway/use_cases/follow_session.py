from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace

from services.gateway.domain.accounts import Principal
from services.gateway.domain.ports import Timeline
from services.gateway.domain.session_stream import TURN_ENDS, SessionCursor, SessionMessage
from services.gateway.domain.timeline import TimelineFilter
from services.gateway.domain.timeline_reading import TimelineQuery
from services.gateway.use_cases.timeline.session_follower import SessionFollower
from services.gateway.use_cases.timeline.session_texts import SessionTexts
from services.gateway.use_cases.timeline.timeline_feeds import TimelineFeeds
from services.gateway.use_cases.turn_history import TurnHistory


@dataclass(frozen=True, slots=True)
class FollowSession:
    """Follows a session: its events in the order of the timeline, the texts of its turns at their places.

    Raises ``ServiceUnavailable`` when the reader is too slow, something cannot be found for a minute or this replica
    ends, and ``AuthenticationFailed`` when the credential has expired.
    """

    timeline: Timeline
    feeds: TimelineFeeds
    texts: SessionTexts
    history: TurnHistory

    async def __call__(
        self,
        caller: Principal,
        session_id: str,
        after: SessionCursor,
        *,
        from_running_turn: bool = False,
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> AsyncGenerator[SessionMessage, None]:
        """``from_running_turn``: from the start of the turn that runs, if one does, instead of ``after`` the cursor.

        ``is_own`` tells turns whose texts are sent anyway, because the reader began them.
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

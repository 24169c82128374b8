"""Reads the events of a turn, a session or a whole company."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from libs.contracts.errors import InvalidRequest
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Identity
from libs.contracts.messages import Received
from libs.contracts.resources.turns import ExecuteTurn, Turn
from libs.contracts.timeline import TimelineFilter
from libs.eventing import CommandSender, Replies
from libs.service_defaults import UpstreamClient
from services.gateway.domain.accounts import Principal
from services.gateway.domain.ports import Timeline
from services.gateway.domain.session_stream import SessionCursor, SessionMessage
from services.gateway.domain.timeline import TimelineEvent, TimelinePage, visible_events
from services.gateway.domain.turn_ends import END_NAMES, ENDED_STATUSES
from services.gateway.domain.turn_progress import TurnProgress, typed
from services.gateway.domain.turn_stream import START, Cursor, StreamedEvent
from services.gateway.use_cases.reading.feed_reader import FeedReader
from services.gateway.use_cases.reading.feeds import Feeds
from services.gateway.use_cases.reading.follow import Message, NewMessage, Order, follow
from services.gateway.use_cases.reading.session_order import SessionOrder
from services.gateway.use_cases.reading.turn_order import FollowedTurn, TurnOrder, TurnQueue

_PAGE: Final = 200


class LogOrder(Order[TimelineEvent | Received, NewMessage], Protocol[NewMessage]):
    """Orders items by their positions in the log."""

    @property
    def position(self) -> int:
        """The position in the log up to which everything has been read."""

    async def take_page(self, page: TimelinePage) -> Sequence[NewMessage]:
        """Accepts a page of stored events. Returns the messages that can be sent now."""

    async def join(self, reader: FeedReader) -> Sequence[NewMessage]:
        """Skips events from before the reader joined the feed. Returns the messages to send first."""


class CompanyOrder:
    """Orders a company's events by their positions in the log."""

    is_incomplete = has_ended = False

    def __init__(self, after: int) -> None:
        self.position = after
        self._reader: FeedReader | None = None

    async def take(self, items: Sequence[TimelineEvent | Received]) -> Sequence[TimelineEvent]:
        new = [each for each in items if isinstance(each, TimelineEvent) and each.position > self.position]
        if new:
            self.position = new[-1].position
        return new

    async def take_page(self, page: TimelinePage) -> Sequence[TimelineEvent]:
        self.position = page.next
        return page.events

    async def join(self, reader: FeedReader) -> Sequence[TimelineEvent]:
        self.position = max(self.position, reader.joined_at)
        self._reader = reader
        return ()

    async def repair(self) -> Sequence[TimelineEvent]:
        return ()

    async def ask(self) -> Sequence[TimelineEvent]:
        """Advances the position past events that the filter excludes."""
        if self._reader is not None:
            self.position = max(self.position, self._reader.reached)
        return ()


@dataclass(frozen=True, slots=True)
class EventReader:
    """Sends each reader every event once: first the stored events after the reader's position, then new events.

    A turn's events are ordered by their sequence numbers, and events of a session or company by their positions in the
    log. Methods for a turn raise ``NotFound`` if the caller can't see it.
    """

    bus: CommandSender
    log: Timeline
    feeds: Feeds
    upstreams: UpstreamClient

    async def head(self, caller: Principal) -> int:
        """Returns the newest position in the company's log, or 0 if the log is empty."""
        company_id = caller.identity.company_id
        return (await self.log.heads([company_id])).get(company_id, 0)

    async def company(
        self, where: TimelineFilter, *, after: int | None
    ) -> AsyncGenerator[Sequence[TimelineEvent] | int, None]:
        """Yields the stored events after a position in batches, then new events. Without ``after``, yields only new
        events.

        Yields the reader's position at the end of the stored events, after a page without a match, and after every 15 s
        without an event. Raises ``ServiceUnavailable`` if the reader is too slow, or if this replica shuts down.
        """
        order = CompanyOrder(after or 0)
        reading = self._read(where, order, has_past=after is not None)
        async with aclosing(reading):
            async for events in reading:
                yield events or order.position
                # The stream may last long, so free its last stored page.
                del events

    async def session(
        self,
        caller: Principal,
        session_id: str,
        after: SessionCursor,
        *,
        from_running_turn: bool = False,
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> AsyncGenerator[SessionMessage, None]:
        """Yields a session's events, with its turns' texts between them.

        ``from_running_turn``: whether to start at the beginning of the running turn, if any, instead of at ``after``.
        ``is_own`` returns whether this reader started a turn. The text of such turns arrives without being requested.

        Raises the same errors as ``company``, and ``ServiceUnavailable`` if an event or text stays missing for a
        minute.
        """
        where = visible_events(caller, session_id)
        if from_running_turn:
            after = await self._before_running_turn(where) or after
        order = SessionOrder(after, partial(self._turn, caller.identity, session_id), is_own)
        reading = self._read(where, order, takes_texts=True)
        async with aclosing(reading):
            async for messages in reading:
                for message in messages:
                    yield message

    async def turn(
        self, identity: Identity, session_id: str, turn_id: str, after: Cursor
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        """Yields a turn's events after a cursor, and ``None`` as a keep-alive.

        If there's nothing to send yet, yields ``None`` first. If the cursor is at the turn's end, yields nothing.
        Raises ``InvalidRequest`` for a cursor of another turn, and ``ServiceUnavailable`` if an event or text stays
        missing for a minute.
        """
        order = TurnOrder(self._turn(identity, id_of(session_id, "session"), id_of(turn_id, "turn")), after)
        # Subscribes before watching the turn, so that every event has either been recorded or will still arrive.
        async with self.bus.replies(turn_id, ExecuteTurn, identity) as replies:
            watched = await order.watch()
            if after.sequence > watched.sequence:
                raise InvalidRequest("Invalid Last-Event-ID. It must be the ID of an event of this turn.")
            shown = await order.complete(watched)
            if not shown:
                if watched.status in ENDED_STATUSES:
                    return
                yield None
            async with aclosing(_one_by_one(shown, replies, order)) as events:
                async for event in events:
                    yield event

    async def submitted_turn(
        self, replies: Replies, session_id: str, first: Received | None
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        """Like ``turn``, but for the request that started the turn. ``first``: an event that has already arrived."""
        order = TurnOrder(self._turn(replies.identity, session_id, replies.command_id), START)
        shown: list[StreamedEvent] = []
        if replies.is_repeat:
            # If this is a retry, the first events went to an earlier request, which may not have requested text.
            shown += await order.complete(await order.watch())
        if first is not None:
            shown += await order.take((first,))
        async with aclosing(_one_by_one(shown, replies, order)) as events:
            async for event in events:
                yield event

    async def turn_state(self, identity: Identity, session_id: str, turn_id: str) -> Turn:
        """Raises ``ServiceUnavailable`` if the runtime doesn't respond."""
        return await self._turn(identity, session_id, turn_id).state()

    async def turn_so_far(self, identity: Identity, session_id: str, turn_id: str) -> list[TurnProgress]:
        """Returns a turn's events so far, with the texts of its finished steps. Returns nothing if the events no longer
        exist.
        """
        order = TurnOrder(self._turn(identity, session_id, turn_id), START)
        events = await order.complete(await order.watch())
        return [progress for event in events if (progress := typed(event)) is not None]

    def _turn(self, identity: Identity, session_id: str, turn_id: str) -> FollowedTurn:
        return FollowedTurn(session_id, turn_id, identity, self.log, self.upstreams)

    async def _read(
        self,
        where: TimelineFilter,
        order: LogOrder[Message],
        *,
        has_past: bool = True,
        takes_texts: bool = False,
    ) -> AsyncGenerator[Sequence[Message], None]:
        """Yields batches of messages. An empty batch means that the caller can report ``order.position``."""
        if has_past:
            # Doesn't join the feed yet: the reader's queue would overflow while old events are read.
            async with aclosing(self._past(where, order)) as past:
                async for messages in past:
                    yield messages
                    del messages
        async with self.feeds.joined(where, takes_texts=takes_texts) as reader:
            if has_past:
                async with aclosing(self._past(where, order, until=reader.joined_at)) as past:
                    async for messages in past:
                        yield messages
                        del messages
            yield await order.join(reader)
            async with aclosing(follow(reader, order)) as coming:
                async for messages in coming:
                    yield messages

    async def _past(
        self, where: TimelineFilter, order: LogOrder[Message], until: int | None = None
    ) -> AsyncGenerator[Sequence[Message], None]:
        """Reads pages up to the end of the log or, with ``until``, at least up to that position."""
        has_more = until is None or order.position < until
        while has_more:
            page = await self.log.page(where, after=order.position, limit=_PAGE)
            messages = await order.take_page(page)
            has_more = page.has_more and (until is None or page.next < until)
            if messages or page.has_more:
                # Reports the position: the filter may match none of millions of events, which take minutes to read.
                yield messages
            # The stream may last long, so free its last stored page.
            del page, messages

    async def _before_running_turn(self, where: TimelineFilter) -> SessionCursor | None:
        started = await self.log.newest(replace(where, types=("turn.started",)))
        if started is None:
            return None
        of_turn = replace(where, turn_id=started.turn_id, types=tuple(END_NAMES))
        ended = await self.log.page(of_turn, after=started.position, limit=1)
        return None if ended.events else SessionCursor(started.position - 1)


async def _one_by_one(
    shown: Sequence[StreamedEvent], replies: Replies, order: TurnOrder
) -> AsyncGenerator[StreamedEvent | None, None]:
    for event in shown:
        yield event
    async with aclosing(follow(TurnQueue(replies), order)) as coming:
        async for events in coming:
            for event in events:
                yield event
            if not events:
                yield None

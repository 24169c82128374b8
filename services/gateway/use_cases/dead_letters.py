"""Lists dead-lettered messages, newest first, and replays them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from libs.contracts.errors import Conflict, NotFound
from libs.contracts.identity import Identity
from libs.eventing.dead_letters import (
    DeadLetter,
    DeadLetterTopic,
    ReplayOutcome,
    ReplayOvertaken,
    TopicContent,
    dead_letter_topic_named,
    dead_letter_topics,
)
from libs.retry import RetryPolicy
from services.gateway.domain.operations import OperationsView, no_such_letter, parse_letter_id, replay_view_of, view_of
from services.gateway.use_cases.health import answered_within

MOST_EXAMINED: Final = 500
"""The maximum number of messages read per page, including messages that aren't shown."""
_AT_ONCE: Final = 25
_READERS: Final = 2
_LIST_SECONDS: Final = 15.0
_GET_SECONDS: Final = 12.0
_REPLAY_SECONDS: Final = 20.0
# After this time, the page ends with the messages found so far, and with the position to continue from.
_ENOUGH_SECONDS: Final = 6.0
# Concurrent replays fence each other off, so their retries are spread out.
_RETRIES: Final = RetryPolicy(first=0.5, longest=2.0, attempts=6)
_log = structlog.get_logger("operations")
Positions = Mapping[str, int]
"""For each topic, the offset before which the next page starts. Omits topics that were read completely."""


class DeadLetterSession(Protocol):
    """Reads and replays messages over one connection."""

    async def contents(self, wanted: Sequence[DeadLetterTopic]) -> dict[DeadLetterTopic, TopicContent]:
        """Returns each topic's content, without missing topics."""

    async def messages(self, topic: DeadLetterTopic, first: int, end: int) -> Sequence[DeadLetter]:
        """Returns messages with offsets from ``first`` up to but excluding ``end``, oldest first, without payloads."""

    async def message(self, topic: DeadLetterTopic, offset: int) -> DeadLetter:
        """Returns the message at an offset, with its payload. Raises ``NotFound`` if the message doesn't exist."""

    async def replay(self, topic: DeadLetterTopic, offset: int) -> ReplayOutcome:
        """Sends the message to its original topic, unless it has already been replayed.

        Raises ``ReplayOvertaken``, without sending, if another process has started to replay from the topic.
        """


OpenDeadLetters = Callable[[], AbstractAsyncContextManager[DeadLetterSession]]
"""Connects to the broker. Raises ``BusUnavailable`` if the broker is or becomes unreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQuery:
    topic: str | None = None
    correlation_id: str | None = None
    replayed: bool | None = None
    after: Positions | None = None
    limit: int = 50

    def matches(self, letter: DeadLetter, replayed: bool) -> bool:
        return (self.correlation_id is None or letter.header("ce_correlationid") == self.correlation_id) and (
            self.replayed is None or replayed is self.replayed
        )


@dataclass(frozen=True, slots=True)
class ListedLetter:
    topic: DeadLetterTopic
    letter: DeadLetter
    replayed: bool


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """A page of dead-lettered messages, which can be short or empty even if more pages follow.

    ``next``: where the next page starts, or None on the last page. ``contents``: set for operators only.
    """

    letters: Sequence[ListedLetter]
    next: Positions | None
    contents: Mapping[DeadLetterTopic, TopicContent] | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A message that has been replayed. ``repeated``: whether an earlier request replayed it."""

    listed: ListedLetter
    repeated: bool


@dataclass(frozen=True, slots=True)
class VisibleDeadLetters:
    """The dead-lettered messages that a caller may see. Methods raise ``PermissionDenied`` and ``ServiceUnavailable``.

    Only two requests read at the same time. This process replays one message at a time, and retries while another
    process replays from the same topic.
    """

    connect: OpenDeadLetters
    monotonic: Callable[[], float]
    retries: RetryPolicy = _RETRIES
    permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READERS))
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def page(self, reader: Identity, query: DeadLetterQuery) -> DeadLetterPage:
        view = view_of(reader)
        async with answered_within(_LIST_SECONDS), self.permits, self.connect() as session:
            contents = await session.contents(dead_letter_topics())
            until = self.monotonic() + _ENOUGH_SECONDS
            merge = _Merge(session, [_begin(topic, content, query) for topic, content in contents.items()])
            letters = await self._collect(merge, view, query, until)
            return DeadLetterPage(letters, merge.positions(), contents if view.is_whole else None)

    async def get(self, reader: Identity, letter_id: str) -> ListedLetter:
        """Returns a message with its payload. Raises ``NotFound`` for a message that doesn't exist or isn't visible."""
        view = view_of(reader)
        # Rejects invalid IDs without a request to Kafka.
        parse_letter_id(letter_id)
        async with answered_within(_GET_SECONDS), self.permits, self.connect() as session:
            return await _find(session, view, letter_id)

    async def replay(self, writer: Identity, letter_id: str) -> Replayed:
        """Sends a message to its original topic, at most once. Raises ``NotFound`` like ``get``.

        Raises ``Conflict`` for a message that can't be replayed. After ``ServiceUnavailable``, the message may have
        been sent. Retrying is safe.
        """
        view = replay_view_of(writer)
        parse_letter_id(letter_id)
        about = {"letter": letter_id, "user_id": writer.user_id, "key_id": writer.key_id}
        async with answered_within(_REPLAY_SECONDS), self.turn, self.connect() as session:
            found = await _find(session, view, letter_id)
            _log.info("dead_letter.replay_asked", **about, company_id=writer.company_id, of=found.letter.company_id)
            outcome = (
                ReplayOutcome(found.letter.offset, repeated=True)
                if found.replayed
                else await self.retries.run(
                    lambda: session.replay(found.topic, found.letter.offset), on=ReplayOvertaken
                )
            )
        if outcome.refusal and not outcome.repeated:
            _log.info("dead_letter.replay_refused", **about, reason=outcome.refusal)
            raise Conflict(outcome.refusal)
        _log.info("dead_letter.replayed", **about, repeated=outcome.repeated)
        return Replayed(ListedLetter(found.topic, found.letter, replayed=True), outcome.repeated)

    async def _collect(
        self, merge: "_Merge", view: OperationsView, query: DeadLetterQuery, until: float
    ) -> list[ListedLetter]:
        found: list[ListedLetter] = []
        while len(found) < query.limit and merge.examined < MOST_EXAMINED and self.monotonic() < until:
            listed = await merge.pop()
            if listed is None:
                break
            if view.shows(listed.letter.company_id) and query.matches(listed.letter, listed.replayed):
                found.append(listed)
        return found


async def _find(session: DeadLetterSession, view: OperationsView, letter_id: str) -> ListedLetter:
    """Raises the same ``NotFound`` for a missing message as for a message that the caller can't see."""
    name, offset = parse_letter_id(letter_id)
    try:
        topic = dead_letter_topic_named(name)
        content = (await session.contents([topic])).get(topic)
        # Reading from a missing topic would block until the topic exists.
        letter = None if content is None else await session.message(topic, offset)
    except NotFound:
        raise no_such_letter() from None
    if content is None or letter is None or not view.shows(letter.company_id):
        raise no_such_letter()
    return ListedLetter(topic, letter, offset in content.replayed)


def _begin(topic: DeadLetterTopic, content: TopicContent, query: DeadLetterQuery) -> "_Tail":
    end = content.end if query.after is None else min(query.after.get(topic.name, 0), content.end)
    if query.topic is not None and query.topic != topic.name:
        end = content.first
    return _Tail(topic, content, max(end, content.first))


@dataclass
class _Tail:
    """A topic that is read backwards. ``before``: all messages from this offset on have been returned."""

    topic: DeadLetterTopic
    content: TopicContent
    before: int
    letters: list[DeadLetter] = field(default_factory=list)
    """Messages that have been read but not returned, newest last."""

    @property
    def is_over(self) -> bool:
        return self.before <= self.content.first and not self.letters


class _Merge:
    """Merges the messages of several topics, newest first. Messages of the same topic keep their order."""

    def __init__(self, session: DeadLetterSession, tails: Sequence[_Tail]) -> None:
        self._session = session
        self._tails = tails
        self.examined = 0

    async def pop(self) -> ListedLetter | None:
        for tail in self._tails:
            await self._fill(tail)
        left = [tail for tail in self._tails if tail.letters]
        if not left:
            return None
        newest = max(left, key=lambda tail: (tail.letters[-1].arrived, tail.topic.name))
        letter = newest.letters.pop()
        # Offsets can have gaps, so the next read starts below the oldest message found.
        newest.before = letter.offset
        self.examined += 1
        return ListedLetter(newest.topic, letter, letter.offset in newest.content.replayed)

    def positions(self) -> Positions | None:
        left = {tail.topic.name: tail.before for tail in self._tails if not tail.is_over}
        return left or None

    async def _fill(self, tail: _Tail) -> None:
        while not tail.letters and tail.before > tail.content.first:
            low = max(tail.content.first, tail.before - _AT_ONCE)
            tail.letters = list(await self._session.messages(tail.topic, low, tail.before))
            if not tail.letters:
                tail.before = low

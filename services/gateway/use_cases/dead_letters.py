"""Dead-lettered messages of all topics: lists them newest first, in bounded pages, and replays them."""

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
"""Messages read per page, including other companies' and filtered ones."""
_AT_ONCE: Final = 25
_READERS: Final = 2
_LIST_SECONDS: Final = 15.0
_GET_SECONDS: Final = 12.0
_REPLAY_SECONDS: Final = 20.0
# Then the page ends with the messages found, and says where to continue.
_ENOUGH_SECONDS: Final = 6.0
# Concurrent replays fence each other off, so they retry at different times.
_RETRIES: Final = RetryPolicy(first=0.5, longest=2.0, attempts=6)
_log = structlog.get_logger("operations")
Positions = Mapping[str, int]
"""By topic, the offset where the next page begins, exclusive. Topics that are missing were read to their end."""


class DeadLetterSession(Protocol):
    """A connection to the dead-letter topics."""

    async def contents(self, wanted: Sequence[DeadLetterTopic]) -> dict[DeadLetterTopic, TopicContent]:
        """The state of each requested topic that exists."""

    async def messages(self, topic: DeadLetterTopic, first: int, end: int) -> Sequence[DeadLetter]:
        """Messages with offsets from ``first`` up to but excluding ``end``, oldest first, without payloads."""

    async def message(self, topic: DeadLetterTopic, offset: int) -> DeadLetter:
        """Raises ``NotFound`` if there is none."""

    async def replay(self, topic: DeadLetterTopic, offset: int) -> ReplayOutcome:
        """Sends the message to its original topic, unless it was replayed before.

        Raises ``ReplayOvertaken``, without sending, if another process started to replay the topic.
        """


OpenDeadLetters = Callable[[], AbstractAsyncContextManager[DeadLetterSession]]
"""Connects. Raises ``BusUnavailable``, also if the broker fails later."""


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
    """``next`` is None at the end. ``contents``: the topics' contents, for operators only.

    A page may have fewer messages than requested, even none, without being the last.
    """

    letters: Sequence[ListedLetter]
    next: Positions | None
    contents: Mapping[DeadLetterTopic, TopicContent] | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """``repeated``: the message was replayed before, so nothing was sent."""

    listed: ListedLetter
    repeated: bool


@dataclass(frozen=True, slots=True)
class VisibleDeadLetters:
    """Methods raise ``PermissionDenied`` and ``ServiceUnavailable``.

    Few readers run at the same time; others wait within their timeout. This process replays one message at a time, and
    retries while another process replays the same topic.
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
        """Includes the payload. Raises ``NotFound``."""
        view = view_of(reader)
        # Reject invalid IDs without a request to Kafka.
        parse_letter_id(letter_id)
        async with answered_within(_GET_SECONDS), self.permits, self.connect() as session:
            return await _find(session, view, letter_id)

    async def replay(self, writer: Identity, letter_id: str) -> Replayed:
        """Sends a message to its original topic, once. Raises ``NotFound``, and ``Conflict`` for one that can't be
        replayed.

        After ``ServiceUnavailable`` it may have been sent; retrying is safe.
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
    """Raises the same ``NotFound`` for a missing message and for one invisible to the caller."""
    name, offset = parse_letter_id(letter_id)
    try:
        topic = dead_letter_topic_named(name)
        content = (await session.contents([topic])).get(topic)
        # Reading a missing topic would wait for it.
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
    """The rest of a topic, read from its end. ``before``: messages from this offset on were handed out."""

    topic: DeadLetterTopic
    content: TopicContent
    before: int
    letters: list[DeadLetter] = field(default_factory=list)
    """Read but not handed out yet, newest last."""

    @property
    def is_over(self) -> bool:
        return self.before <= self.content.first and not self.letters


class _Merge:
    """Merges the messages of several topics, newest first, keeping each topic's order."""

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
        # After a gap without messages, the next read begins below the last one.
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

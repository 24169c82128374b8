"""Lists dead letters of all topics, newest first, in pages that read a bounded part of the topics."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from libs.contracts.identity import Identity
from libs.eventing import DeadLetter, DeadLetterTopic, TopicContent, dead_letter_topics
from services.gateway.domain.operations import OperationsView, view_of
from services.gateway.use_cases.operations.kafka_answers import answered_within
from services.gateway.use_cases.operations.ports import DeadLetterBox, DeadLetterSession

MOST_EXAMINED: Final = 500
"""Letters read for one page. Those of others, and those that a filter leaves out, count."""
_AT_ONCE: Final = 25
_LIMIT_SECONDS: Final = 15.0
# Then the page ends with what was found, and says where to go on.
_ENOUGH_SECONDS: Final = 6.0
Positions = Mapping[str, int]
"""By topic, the offset before which the next page begins. A topic that is not named has been read to its end."""


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
    """``next`` is None at the end. ``contents`` tells what lies in the topics, to operators only.

    A page may have fewer letters than were asked for, even none, and yet not be the last one.
    """

    letters: Sequence[ListedLetter]
    next: Positions | None
    contents: Mapping[DeadLetterTopic, TopicContent] | None


@dataclass(frozen=True, slots=True)
class ListDeadLetters:
    """``permits`` limits how many read at the same time; others wait for their turn within their time."""

    box: DeadLetterBox
    permits: asyncio.Semaphore
    monotonic: Callable[[], float]

    async def __call__(self, reader: Identity, query: DeadLetterQuery) -> DeadLetterPage:
        """Raises ``PermissionDenied`` and ``ServiceUnavailable``."""
        view = view_of(reader)
        async with answered_within(_LIMIT_SECONDS), self.permits, self.box.open() as session:
            contents = await session.contents(dead_letter_topics())
            until = self.monotonic() + _ENOUGH_SECONDS
            merge = _Merge(session, [_begin(topic, content, query) for topic, content in contents.items()])
            letters = await self._collect(merge, view, query, until)
            return DeadLetterPage(letters, merge.positions(), contents if view.is_whole else None)

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


def _begin(topic: DeadLetterTopic, content: TopicContent, query: DeadLetterQuery) -> "_Tail":
    end = content.end if query.after is None else min(query.after.get(topic.name, 0), content.end)
    if query.topic is not None and query.topic != topic.name:
        end = content.first
    return _Tail(topic, content, max(end, content.first))


@dataclass
class _Tail:
    """The rest of a topic, read from its end. ``before``: letters from this offset on have been handed out."""

    topic: DeadLetterTopic
    content: TopicContent
    before: int
    letters: list[DeadLetter] = field(default_factory=list)
    """Read and not handed out yet, the newest last."""

    @property
    def is_over(self) -> bool:
        return self.before <= self.content.first and not self.letters


class _Merge:
    """Hands out the letters of several topics, newest first, as each topic has them in order."""

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
        # Without letters in between, as after a gap, the next read begins below the last one.
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

"""The outside parts of operations, in memory: health, groups, dead letters."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from libs.contracts.errors import NotFound
from libs.contracts.resources.operations import Replica
from libs.eventing.bus import BusUnavailable
from libs.eventing.dead_letters import (
    DeadLetter,
    DeadLetterTopic,
    ReplayOffsets,
    ReplayOutcome,
    ReplayOvertaken,
    TopicContent,
    dead_letter_topic_named,
)
from libs.eventing.lag import GroupLag

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class FakeServiceHealth:
    found: dict[str, list[Replica]] = field(default_factory=dict)
    looks: int = 0

    async def replicas(self) -> Mapping[str, Sequence[Replica]]:
        self.looks += 1
        await asyncio.sleep(0)
        return dict(self.found)


@dataclass
class FakeConsumerGroups:
    found: list[GroupLag] = field(default_factory=list)
    looks: int = 0
    down: bool = False

    async def lag(self) -> Sequence[GroupLag]:
        self.looks += 1
        await asyncio.sleep(0)
        if self.down:
            raise BusUnavailable("kafka-1.internal:9093: connection refused for user gateway-kafka")
        return list(self.found)


@dataclass
class FakeDeadLetters:
    """``refusals``: why letters have to stay, by id. ``overtaken``: so many replays are fenced off first."""

    letters: dict[str, list[DeadLetter]] = field(default_factory=dict)
    replayed: dict[str, ReplayOffsets] = field(default_factory=dict)
    sent: list[tuple[str, int]] = field(default_factory=list)
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    refusals: dict[tuple[str, int], str] = field(default_factory=dict)
    overtaken: int = 0
    down: bool = False
    opened: int = 0
    before_read: Callable[[], None] = lambda: None

    def add(
        self,
        topic: str = "runtime-events-artifacts-dlq",
        *,
        company: str | None = "company-1",
        payload: Any = None,
        reason: str = "ValueError('no such kind')",
        minute: float = 0,
        **headers: str,
    ) -> str:
        """Puts a letter at the end of the topic and returns its id."""
        held = self.letters.setdefault(topic, [])
        given = {"ce_id": f"e{len(held)}", "ce_type": "aes.runtime.turn.completed.v1", "dlq_reason": reason}
        given |= {"dlq_attempts": "3", "dlq_topic": topic.rsplit("-", 2)[0], "dlq_partition": "1", "dlq_offset": "7"}
        given |= ({} if company is None else {"ce_companyid": company}) | headers
        pairs = tuple((name, value.encode()) for name, value in given.items())
        value = payload if isinstance(payload, bytes) else orjson.dumps(payload or {})
        held.append(DeadLetter(len(held), "label", value, pairs, BEGIN + timedelta(minutes=minute)))
        return f"{topic}.{len(held) - 1}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["FakeDeadLetters"]:
        self.opened += 1
        if self.down:
            raise BusUnavailable("kafka-1.internal:9093: invalid credentials")
        yield self

    async def contents(self, wanted: Sequence[DeadLetterTopic]) -> dict[DeadLetterTopic, TopicContent]:
        return {
            topic: TopicContent(
                0, len(self.letters.get(topic.name, ())), self.replayed.get(topic.name, ReplayOffsets())
            )
            for topic in wanted
        }

    async def messages(self, topic: DeadLetterTopic, first: int, end: int) -> Sequence[DeadLetter]:
        self.before_read()
        self.reads.append((topic.name, first, end))
        return [each.without_payload() for each in self.letters[topic.name][first:end]]

    async def message(self, topic: DeadLetterTopic, offset: int) -> DeadLetter:
        held = self.letters.get(topic.name, [])
        if offset >= len(held):
            raise NotFound(f"{topic.name} has no message at offset {offset}.")
        return held[offset]

    async def replay(self, topic: DeadLetterTopic, offset: int) -> ReplayOutcome:
        if self.overtaken:
            self.overtaken -= 1
            raise ReplayOvertaken(f"Another replay has begun for {topic.name}.")
        # Others have their turn before it is sent.
        await asyncio.sleep(0)
        done = self.replayed.get(topic.name, ReplayOffsets())
        if offset in done:
            return ReplayOutcome(offset, "The message was already replayed.", repeated=True)
        if refusal := self.refusals.get((topic.name, offset)):
            return ReplayOutcome(offset, refusal)
        self.replayed[topic.name] = done.with_offset(offset, 0)
        self.sent.append((dead_letter_topic_named(topic.name).source, offset))
        return ReplayOutcome(offset)

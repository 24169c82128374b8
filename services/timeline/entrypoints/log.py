"""Stores the events of all services in the timeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol

import orjson

from libs.contracts.messages import Envelope, PoisonMessage, envelope_from, public_name
from libs.contracts.resources.turns import TURN_ENDS
from libs.eventing.bus import OffsetMove, Partition, Record
from libs.eventing.messages import PayloadReader
from services.timeline.domain.events import OWNER_UNKNOWN, NewEvent
from services.timeline.domain.usage import TurnUsage, turn_usage

_ENDLESS: Final = 2**63
_TURN_ENDS: Final = frozenset(public_name(event.TYPE) for event in TURN_ENDS)


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """An event received from Kafka. ``event`` is None until a payload that is stored elsewhere has been loaded."""

    envelope: Envelope
    event: NewEvent | None


class TimelineLog(Protocol):
    """Writes the numbered log of events."""

    async def offsets(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        """Returns the next offset to read for each partition from which events have been stored."""

    async def store(self, events: Sequence[NewEvent], moves: Mapping[Partition, OffsetMove]) -> int:
        """Numbers and stores new events, and moves the offsets, in one transaction. Returns the number of new events.

        Raises ``StaleOffset`` if another process has moved an offset. An event's copies must be in the same partition.
        """


@dataclass(frozen=True, slots=True)
class TimelineEvents:
    """Parses events from Kafka records, and stores them in batches."""

    log: TimelineLog
    payloads: PayloadReader

    async def offsets(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        return await self.log.offsets(topics)

    def read(self, record: Record) -> PublishedEvent | None:
        envelope = envelope_from(record.headers)
        if not envelope.company_id:
            return None
        return PublishedEvent(envelope, None if envelope.data_ref is not None else event_of(envelope, record.value))

    def is_whole(self, item: PublishedEvent) -> bool:
        return item.event is not None

    async def fetch(self, item: PublishedEvent) -> PublishedEvent:
        payload = await self.payloads.read(item.envelope, b"")
        return replace(item, event=event_of(item.envelope, payload))

    async def store(self, items: Sequence[PublishedEvent], moves: Mapping[Partition, OffsetMove]) -> None:
        await self.log.store([item.event for item in items if item.event is not None], moves)


def event_of(envelope: Envelope, payload: bytes) -> NewEvent:
    """Parses an event. Raises ``PoisonMessage`` if its sequence number or payload is invalid."""
    if not 0 <= envelope.sequence < _ENDLESS:
        raise PoisonMessage(f"invalid sequence number {envelope.sequence}")
    try:
        content = orjson.loads(payload)
    except orjson.JSONDecodeError as problem:
        raise PoisonMessage(f"the payload of {envelope.type} isn't valid JSON: {problem.msg}") from problem
    if not isinstance(content, dict):
        raise PoisonMessage(f"the payload of {envelope.type} isn't an object")
    session_id = _text(content, "session_id") or _text(content.get("artifact"), "session_id")
    owner_id = envelope.owner_id
    if owner_id is None and session_id is not None:
        # Hiding the event from its owner is better than showing it to everyone.
        owner_id = OWNER_UNKNOWN
    name, version = _name_and_version(envelope.type)
    return NewEvent(
        company_id=envelope.company_id,
        id=envelope.id,
        type=name,
        version=version,
        source=envelope.source,
        subject=envelope.subject,
        sequence=envelope.sequence,
        time=envelope.time,
        correlation_id=envelope.correlation_id,
        causation_id=envelope.causation_id,
        session_id=session_id,
        turn_id=_text(content, "turn_id"),
        owner_id=owner_id,
        usage=_usage(envelope, content) if name in _TURN_ENDS else None,
        data=payload,
    )


def _usage(envelope: Envelope, content: dict[str, Any]) -> TurnUsage:
    try:
        return turn_usage(envelope.time, content)
    except ValueError as problem:
        raise PoisonMessage(f"invalid usage data in {envelope.type}: {problem}") from problem


def _text(content: Any, name: str) -> str | None:
    found = content.get(name) if isinstance(content, dict) else None
    return found if isinstance(found, str) and "\0" not in found else None


@lru_cache
def _name_and_version(event_type: str) -> tuple[str, int]:
    number = event_type.rpartition(".v")[2]
    return public_name(event_type), int(number) if number.isascii() and number.isdecimal() else 1

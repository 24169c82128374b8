"""Dead-letter topics, dead-lettered messages, and the record of which messages were replayed."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from libs.contracts.timestamps import format_time, parse_time

REPLAY_GROUP: Final = "dead-letter-replay"
MARK: Final = "dlq_"
# The inbox retains rows for eight days, and brokers retain committed offsets, which record replays, for seven days by
# default. Later, a replay could process a message again.
MAX_AGE: Final = timedelta(days=7)
# Brokers limit an offset's metadata to this size by default.
_MAX_METADATA_LENGTH: Final = 4096
_SHOWN: Final = frozenset(
    {
        *("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time"),
        *("ce_correlationid", "ce_causationid", "ce_companyid", "ce_ownerid", "ce_sequence", "ce_expiresat"),
        *("ce_dataref", "ce_datahash", "traceparent", "content-type"),
    }
)


@dataclass(frozen=True)
class DeadLetterTopic:
    """The dead-letter topic for messages from the topic ``source`` that the service ``consumer`` couldn't process."""

    name: str
    source: str
    consumer: str


@dataclass(frozen=True)
class DeadLetter:
    offset: int
    key: str
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    arrived: datetime
    """When the broker stored the message."""
    dropped_bytes: int = 0
    """The size of the payload that ``without_payload`` has removed."""

    def without_payload(self) -> "DeadLetter":
        """Returns a copy without the payload."""
        return replace(self, value=b"", dropped_bytes=len(self.value))

    @property
    def payload_bytes(self) -> int:
        return number_in(self.header("dlq_omitted_bytes")) or self.dropped_bytes or len(self.value)

    @property
    def company_id(self) -> str | None:
        """Returns the ID of the message's company, or None if the headers don't specify exactly one."""
        named = {value for name, value in self.headers if name == "ce_companyid"}
        return named.pop().decode(errors="replace") or None if len(named) == 1 else None

    def header(self, name: str) -> str | None:
        found = [value for header, value in self.headers if header == name]
        return found[-1].decode(errors="replace") if found else None

    @property
    def original_headers(self) -> list[tuple[str, bytes]]:
        """Returns the headers that the message had before it was dead-lettered."""
        return [(name, value) for name, value in self.headers if not name.startswith(MARK)]

    @property
    def original_position(self) -> tuple[int, int] | None:
        """Returns the partition and offset of the original message if its payload was too large to copy."""
        if self.header("dlq_omitted_bytes") is None:
            return None
        return number_in(self.header("dlq_partition")) or 0, number_in(self.header("dlq_offset")) or 0

    def is_too_old(self, now: datetime) -> bool:
        """Returns whether the message's inbox row may be gone, so that a replay could take effect a second time."""
        return now - self._made() > MAX_AGE

    def _made(self) -> datetime:
        try:
            return parse_time(self.header("ce_time") or "")
        except ValueError:
            return self.arrived

    def summary(self, replayed: bool) -> dict[str, Any]:
        return {
            "offset": self.offset,
            "type": self.header("ce_type"),
            "id": self.header("ce_id"),
            "correlation_id": self.header("ce_correlationid"),
            "reason": self.header("dlq_reason"),
            "attempts": number_in(self.header("dlq_attempts")),
            "dead_since": format_time(self.arrived.astimezone(UTC)),
            "replayed": replayed,
        }

    def as_json(self, replayed: bool) -> dict[str, Any]:
        """Returns the message as JSON-ready data, without the payload and the values of headers that may be secret."""
        return {
            **self.summary(replayed),
            "topic": self.header("dlq_topic"),
            "partition": number_in(self.header("dlq_partition")),
            "original_offset": number_in(self.header("dlq_offset")),
            "key": self.key,
            "headers": {name: _shown(name, value) for name, value in self.original_headers},
            "payload_bytes": self.payload_bytes,
        }


class MetadataTooLong(Exception):
    """The replayed offsets don't fit into a commit's metadata, since too many messages were skipped."""


@dataclass(frozen=True)
class ReplayOffsets:
    """The offsets of replayed messages: all those before ``position``, and those in ``beyond``."""

    position: int = 0
    beyond: frozenset[int] = frozenset()

    def __contains__(self, offset: int) -> bool:
        return offset < self.position or offset in self.beyond

    def with_offset(self, offset: int, first: int) -> "ReplayOffsets":
        """Adds an offset. ``first`` is the topic's oldest retained offset."""
        done = {*self.beyond, offset}
        position = max(self.position, first)
        while position in done:
            position += 1
        return ReplayOffsets(position, frozenset(offset for offset in done if offset > position))

    def count(self, first: int, end: int) -> int:
        """Counts the replayed messages from the offset ``first`` (inclusive) to ``end`` (exclusive)."""
        before = max(0, min(self.position, end) - first)
        return before + sum(1 for offset in self.beyond if max(first, self.position) <= offset < end)

    def metadata(self) -> str:
        """Formats ``beyond`` as ranges, such as ``7,9-12``. Raises ``MetadataTooLong``."""
        ranges: list[list[int]] = []
        for offset in sorted(self.beyond):
            if ranges and offset == ranges[-1][1] + 1:
                ranges[-1][1] = offset
            else:
                ranges.append([offset, offset])
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
        if len(text) > _MAX_METADATA_LENGTH:
            raise MetadataTooLong
        return text

    @classmethod
    def read(cls, position: int, metadata: str) -> "ReplayOffsets":
        """Parses a committed offset and its metadata. The offset is -1 if nothing has been committed."""
        beyond: set[int] = set()
        for part in filter(None, metadata.split(",")):
            first, _, last = part.partition("-")
            beyond.update(range(int(first), int(last or first) + 1))
        return cls(max(position, 0), frozenset(beyond))


def number_in(text: str | None) -> int | None:
    """Returns the number in a header, or None if the header is missing or isn't a number."""
    return int(text) if text and text.isascii() and text.isdigit() else None


def _shown(name: str, value: bytes) -> str:
    return value.decode(errors="replace") if name in _SHOWN else f"({len(value)} bytes, not shown)"

"""Describes a dead letter without showing its payload or its secrets."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from libs.contracts.timestamps import format_time, parse_time

MARK: Final = "dlq_"
# Inboxes keep their rows for eight days; after that a consumer would process the message a second time. By default a
# broker also keeps committed offsets, and so the record of replays, for at least seven days.
MAX_AGE: Final = timedelta(days=7)
_SHOWN: Final = frozenset(
    {
        *("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time"),
        *("ce_correlationid", "ce_causationid", "ce_companyid", "ce_ownerid", "ce_sequence", "ce_expiresat"),
        *("ce_dataref", "ce_datahash", "traceparent", "content-type"),
    }
)


@dataclass(frozen=True)
class DlqMessage:
    offset: int
    """Offset in the only partition of its dead-letter topic."""
    key: str
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    arrived: datetime
    """Time at which the broker stored it."""

    def header(self, name: str) -> str | None:
        found = [value for header, value in self.headers if header == name]
        return found[-1].decode(errors="replace") if found else None

    @property
    def original_headers(self) -> list[tuple[str, bytes]]:
        """Headers of the message before it was dead-lettered."""
        return [(name, value) for name, value in self.headers if not name.startswith(MARK)]

    @property
    def original_position(self) -> tuple[int, int] | None:
        """Partition and offset of the original message when its payload was too large to be copied here."""
        if self.header("dlq_omitted_bytes") is None:
            return None
        return int(self.header("dlq_partition") or 0), int(self.header("dlq_offset") or 0)

    def is_too_old(self, now: datetime) -> bool:
        """Whether consumers may have deleted the inbox row that would keep them from processing it twice."""
        return now - self._made() > MAX_AGE

    def _made(self) -> datetime:
        try:
            return parse_time(self.header("ce_time") or "")
        except ValueError:
            return self.arrived

    def summary(self, replayed: bool) -> dict[str, Any]:
        attempts = self.header("dlq_attempts")
        return {
            "offset": self.offset,
            "type": self.header("ce_type"),
            "id": self.header("ce_id"),
            "correlation_id": self.header("ce_correlationid"),
            "reason": self.header("dlq_reason"),
            "attempts": int(attempts) if attempts and attempts.isdigit() else None,
            "dead_since": format_time(self.arrived.astimezone(UTC)),
            "replayed": replayed,
        }

    def as_json(self, replayed: bool) -> dict[str, Any]:
        """Renders all but the payload; headers that may hold a secret, such as the signed identity, by size only."""
        return {
            **self.summary(replayed),
            "topic": self.header("dlq_topic"),
            "partition": _number(self.header("dlq_partition")),
            "original_offset": _number(self.header("dlq_offset")),
            "key": self.key,
            "headers": {name: _shown(name, value) for name, value in self.original_headers},
            "payload_bytes": int(self.header("dlq_omitted_bytes") or len(self.value)),
        }


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _shown(name: str, value: bytes) -> str:
    return value.decode(errors="replace") if name in _SHOWN else f"({len(value)} bytes, not shown)"

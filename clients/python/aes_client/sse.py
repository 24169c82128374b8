"""Parses server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerEvent:
    """A server-sent event. Missing fields are empty. An event can consist of only an ``id``."""

    name: str
    data: bytes
    id: str


class EventParser:
    """An incremental parser. ``feed`` receives the next bytes and yields the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        # The service ends lines with a line feed only. A line's text can contain other line separators.
        *blocks, self._rest = (self._rest + piece.replace(b"\r\n", b"\n")).split(b"\n\n")
        for block in blocks:
            event = _event_in(block)
            if event is not None:
                yield event


def _event_in(block: bytes) -> ServerEvent | None:
    name, event_id, data = b"", b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value
        elif field == b"id":
            event_id = value
        elif field == b"data":
            data.append(value)
    if not (name or event_id or data):
        return None
    return ServerEvent(name.decode(), b"\n".join(data), event_id.decode())

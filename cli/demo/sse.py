"""Reads server-sent events."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerEvent:
    """``data`` is empty for a block that only tells an ``id``."""

    name: str
    data: dict[str, Any]
    id: str = ""


def lines_in(pieces: Iterable[bytes]) -> Iterator[str]:
    """Splits a stream into lines at line feeds only: a text may hold the other characters that Python splits at."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode().removesuffix("\r") for line in lines)


def events_in(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Parses events from a stream's lines and skips comments that tell nothing."""
    name, event_id = "message", ""
    data: list[str] = []
    for line in lines:
        if line == "":
            if data or event_id:
                yield ServerEvent(name, json.loads("\n".join(data) or "{}"), event_id)
            name, event_id, data = "message", "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "id":
            event_id = value
        elif field == "data":
            data.append(value)

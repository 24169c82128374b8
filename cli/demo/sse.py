"""Reads server-sent events."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerEvent:
    name: str
    data: dict[str, Any]


def events_in(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """The events in a stream's lines; comments, which keep the connection alive, are left out."""
    name = "message"
    data: list[str] = []
    for line in lines:
        if line == "":
            if data:
                yield ServerEvent(name, json.loads("\n".join(data)))
            name, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)

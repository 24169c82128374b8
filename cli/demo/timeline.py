"""Steps 6 and 7: the history of the sessions, and all events of the demo, read from Kafka by correlation id."""

import asyncio
from datetime import datetime
from typing import Any

from rich.text import Text

from cli.demo.api import Api
from cli.demo.conversation import Talk
from cli.demo.event_log import RecordedEvent, read_events
from cli.demo.screen import Screen
from cli.demo.start import Running
from deploy.local.errors import StackError


def show_history(screen: Screen, api: Api, talks: list[Talk]) -> list[dict[str, Any]]:
    """Returns the pages of messages, one per session."""
    screen.heading(6, "Read the history", "GET /api/v1/runtime/{session_id}/messages/")
    pages = []
    for talk in talks:
        page = api.get(f"/runtime/{talk.session_id}/messages/")
        pages.append({"session_id": talk.session_id, **page})
        screen.line(f"session {talk.letter} · {page['total']} messages", "dim")
        for message in page["messages"]:
            moment = Text(message["timestamp"][11:23], style="dim")
            screen.row(moment, Text(f"{message['role']:<9}"), Text(" ".join(message["content"].split())))
    return pages


def show(
    screen: Screen, stack: Running, correlation_id: str, since: float, base: dict[str, Any], talks: list[Talk]
) -> list[dict[str, Any]]:
    """Returns the events in the order in which they happened; empty when no broker is known."""
    screen.heading(7, "Replay the timeline from Kafka", f"correlation id {correlation_id}")
    if stack.bus is None:
        screen.line("Name the broker of this service in AES_KAFKA_BOOTSTRAP_SERVERS to see it.", "yellow")
        return []
    turns = {turn["turn_id"] for talk in talks for turn in talk.turns}
    try:
        events = asyncio.run(read_events(stack.bus, correlation_id, since, turns))
    except (OSError, TimeoutError) as problem:
        raise StackError(
            f"The events could not be read from Kafka at {stack.bus.servers}: {problem or 'no answer in time'}",
            "See: ./aes logs kafka",
        ) from problem
    names = _names(base, talks)
    widest = max((len(event.name) for event in events), default=0)
    first = _moment(events[0]) if events else 0.0
    moments = [f"+{_moment(event) - first:.3f} s" for event in events]
    longest = max(map(len, moments), default=0)
    for event, moment in zip(events, moments, strict=True):
        screen.row(
            Text(f"{moment:>{longest}}", style="dim"),
            Text(f"{names.get(event.subject, event.subject[-9:]):<10}"),
            Text(f"{event.name:<{widest}}", style="green" if event.name == "turn.completed" else ""),
            Text(_short(event.place), style="dim"),
        )
    screen.line(f"{len(events)} events, each with its topic (…-events), partition and offset.", "dim")
    screen.line("Follow them with examples/consume_events.py, too.", "dim")
    return [event.as_json() for event in events]


def _names(base: dict[str, Any], talks: list[Talk]) -> dict[str, str]:
    """Short names for the subjects of events."""
    names = {base["id"]: "knowledge"}
    names |= {document["id"]: f"file {number}" for number, document in enumerate(base["datasources"], 1)}
    for talk in talks:
        names[talk.session_id] = f"session {talk.letter}"
        for number, turn in enumerate(talk.turns, 1):
            names[turn["turn_id"]] = f"turn {talk.letter}{number}"
        for number, artifact_id in enumerate(talk.artifacts, 1):
            names[artifact_id] = f"artifact {number}"
    return names


def _short(place: str) -> str:
    """Shortens a text to fit beside the longest name in 80 characters."""
    return place.replace("-events[", "[", 1)


def _moment(event: RecordedEvent) -> float:
    return datetime.fromisoformat(event.time).timestamp()

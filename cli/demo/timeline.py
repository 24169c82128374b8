"""Steps 7 and 8: the history of the sessions, and all events of the demo by its correlation id."""

import sys
from pathlib import Path
from typing import Any

from aes_client import Client, TimeLimitReached
from aes_client.models import KnowledgeBase, TimelineEventView
from rich.text import Text

from cli.bus_address import BusAddress
from cli.demo.conversation import Talk
from cli.demo.next_steps import near
from cli.demo.screen import Screen
from cli.demo.start import Running
from deploy.local.errors import StackError

_TIMEOUT_SECONDS = 15.0
_ENDS = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})


def show_history(screen: Screen, talks: list[Talk]) -> list[dict[str, Any]]:
    """Returns the messages of each session."""
    screen.heading(7, "Read the history", "GET /api/v1/runtime/{session_id}/messages/")
    history = []
    for talk in talks:
        messages = list(talk.session.messages())
        history.append({"session_id": talk.session.session_id, "messages": messages, "total": len(messages)})
        screen.line(f"session {talk.letter} · {len(messages)} messages", "dim")
        for message in messages:
            moment = Text(message.timestamp.isoformat()[11:23], style="dim")
            screen.row(moment, Text(f"{message.role:<9}"), Text(" ".join(message.content.split())))
    return history


def show(
    screen: Screen, client: Client, stack: Running, correlation_id: str, base: KnowledgeBase, talks: list[Talk]
) -> list[TimelineEventView]:
    """Returns the events, in the order of the timeline."""
    screen.heading(8, "Read the timeline", f"GET /api/v1/events/?correlation_id={correlation_id}")
    events = read(client, correlation_id, {turn["turn_id"] for talk in talks for turn in talk.turns})
    names = _names(base, talks)
    widest = max((len(event.type) for event in events), default=0)
    moments = [f"+{(event.time - events[0].time).total_seconds():.3f} s" for event in events]
    longest = max(map(len, moments), default=0)
    for event, moment in zip(events, moments, strict=True):
        screen.row(
            Text(f"{moment:>{longest}}", style="dim"),
            Text(f"{names.get(event.subject, event.subject[-9:]):<10}"),
            Text(f"{event.type:<{widest}}", style="green" if event.type == "turn.completed" else ""),
            Text(f"{event.source.removeprefix('/aes/')} {event.position}", style="dim"),
        )
    screen.line(f"{len(events)} events, each with its service and position. Follow: ./aes events tail", "dim")
    if stack.bus is not None:
        screen.line("The same from Kafka:", "dim")
        screen.command(consumer_command(stack.bus, stack.kafka_password_file, correlation_id))
    return events


def read(client: Client, correlation_id: str, turns: set[str]) -> list[TimelineEventView]:
    """Reads the events of a correlation id until these turns have ended. Raises StackError when that takes too long."""
    found: list[TimelineEventView] = []
    open_turns = set(turns)
    try:
        for event in client.events.follow(after=0, correlation_id=correlation_id, timeout=_TIMEOUT_SECONDS):
            found.append(event)
            if event.type in _ENDS:
                open_turns.discard(event.subject)
            if not open_turns:
                break
    except TimeLimitReached as late:
        raise StackError("The timeline did not get all events in time.", "See: ./aes logs gateway") from late
    return found


def consumer_command(bus: BusAddress, password_file: Path | None, correlation_id: str) -> str:
    """The example's call, to be copied; Kafka's password itself, where there is one, stays off the screen."""
    options = [f"--bootstrap-servers {bus.servers}"]
    if bus.prefix:
        options.append(f"--prefix {bus.prefix}")
    if bus.kafka.username:
        options.append(f"--username {bus.kafka.username} --mechanism {bus.kafka.sasl_mechanism}")
    options.append(f"--correlation-id {correlation_id} --from-beginning --timeout 5")
    command = [f"{near(Path(sys.executable))} examples/consume_events.py", *options]
    if password_file is not None:
        command.insert(0, f"KAFKA_PASSWORD=$(cat {near(password_file)})")
    return " \\\n     ".join(command)


def _names(base: KnowledgeBase, talks: list[Talk]) -> dict[str, str]:
    """Short names for the subjects of events."""
    names = {base.id: "knowledge"}
    names |= {document.id: f"file {number}" for number, document in enumerate(base.datasources, 1)}
    for talk in talks:
        names[talk.session.session_id] = f"session {talk.letter}"
        for number, turn in enumerate(talk.turns, 1):
            names[turn["turn_id"]] = f"turn {talk.letter}{number}"
        for number, artifact_id in enumerate(talk.artifacts, 1):
            names[artifact_id] = f"artifact {number}"
    return names

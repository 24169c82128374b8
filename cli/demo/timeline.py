"""Steps 7 and 8: the history of the sessions, and all events of the demo by its correlation id."""

import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from cli.bus_address import BusAddress
from cli.demo.api import Api
from cli.demo.conversation import Talk
from cli.demo.next_steps import near
from cli.demo.screen import Screen
from cli.demo.start import Running
from deploy.local.errors import StackError

_TIMEOUT_SECONDS = 15.0
_PAUSE_SECONDS = 0.2
_ENDS = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})


def show_history(screen: Screen, api: Api, talks: list[Talk]) -> list[dict[str, Any]]:
    """Returns the pages of messages, one per session."""
    screen.heading(7, "Read the history", "GET /api/v1/runtime/{session_id}/messages/")
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
    screen: Screen, api: Api, stack: Running, correlation_id: str, base: dict[str, Any], talks: list[Talk]
) -> list[dict[str, Any]]:
    """Returns the events, in the order of the timeline."""
    screen.heading(8, "Read the timeline", f"GET /api/v1/events/?correlation_id={correlation_id}")
    events = read(api, correlation_id, {turn["turn_id"] for talk in talks for turn in talk.turns})
    names = _names(base, talks)
    widest = max((len(event["type"]) for event in events), default=0)
    first = _moment(events[0]) if events else 0.0
    moments = [f"+{_moment(event) - first:.3f} s" for event in events]
    longest = max(map(len, moments), default=0)
    for event, moment in zip(events, moments, strict=True):
        screen.row(
            Text(f"{moment:>{longest}}", style="dim"),
            Text(f"{names.get(event['subject'], event['subject'][-9:]):<10}"),
            Text(f"{event['type']:<{widest}}", style="green" if event["type"] == "turn.completed" else ""),
            Text(f"{event['source'].removeprefix('/aes/')} {event['position']}", style="dim"),
        )
    screen.line(f"{len(events)} events, each with its service and position. Follow: ./aes events tail", "dim")
    if stack.bus is not None:
        screen.line("The same from Kafka:", "dim")
        screen.command(consumer_command(stack.bus, stack.kafka_password_file, correlation_id))
    return events


def read(
    api: Api, correlation_id: str, turns: set[str], sleep: Callable[[float], None] = time.sleep
) -> list[dict[str, Any]]:
    """Reads the events of a correlation id until these turns have ended. Raises StackError when that takes too long."""
    found: list[dict[str, Any]] = []
    open_turns, after, waited = set(turns), 0, 0.0
    while open_turns:
        page = api.get(f"/events/?correlation_id={correlation_id}&after={after}&limit=200")
        found += page["events"]
        after = page["next"]
        open_turns -= {event["subject"] for event in page["events"] if event["type"] in _ENDS}
        if open_turns and not page["has_more"]:
            if waited >= _TIMEOUT_SECONDS:
                raise StackError("The timeline did not get all events in time.", "See: ./aes logs gateway")
            sleep(_PAUSE_SECONDS)
            waited += _PAUSE_SECONDS
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


def _moment(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()

"""Step 5: everything that happened, read back from Kafka by its correlation id."""

import asyncio
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from cli.demo.conversation import Talk
from cli.demo.event_log import RecordedEvent, read_events
from cli.demo.screen import Screen
from cli.demo.start import Running
from deploy.local.errors import StackError


def show(screen: Screen, stack: Running, correlation_id: str, since: float, talks: list[Talk]) -> list[dict[str, Any]]:
    """Returns the events in the order in which they happened; empty when no broker is known."""
    screen.heading(5, "Replay the timeline from Kafka", f"correlation id {correlation_id}")
    if stack.kafka is None:
        screen.line("Name the broker of this service in AES_KAFKA_BOOTSTRAP_SERVERS to see it.", "yellow")
        return []
    turns = {turn["turn_id"] for talk in talks for turn in talk.turns}
    try:
        events = asyncio.run(read_events(stack.kafka, stack.topic_prefix, correlation_id, since, turns))
    except (OSError, TimeoutError) as problem:
        raise StackError(
            f"The events could not be read from Kafka at {stack.kafka}: {problem or 'no answer in time'}",
            "See: aes logs kafka",
        ) from problem
    names = _names(talks)
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    first = _moment(events[0]) if events else 0.0
    for event in events:
        table.add_row(
            Text(f"+{_moment(event) - first:.3f} s", style="dim"),
            Text(names.get(event.subject, event.subject[-12:])),
            Text(event.name, style="green" if event.name.endswith("completed") else ""),
            Text(event.place, style="dim"),
        )
    screen.table(table)
    screen.line(f"{len(events)} events, ordered by key; any consumer can read them with a group of its own.", "dim")
    return [event.as_json() for event in events]


def _names(talks: list[Talk]) -> dict[str, str]:
    """Short names for the subjects of events."""
    names = {}
    for letter, talk in zip("AB", talks, strict=False):
        names[talk.session_id] = f"session {letter}"
        for number, turn in enumerate(talk.turns, 1):
            names[turn["turn_id"]] = f"turn {letter}{number}"
    return names


def _moment(event: RecordedEvent) -> float:
    return datetime.fromisoformat(event.time).timestamp()

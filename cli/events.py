"""The `aes events` commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from cli.commands import Commands
from cli.connection import ApiKey, BaseUrl, connect
from cli.terminal import Json, failures_explained, note, print_json

if TYPE_CHECKING:
    from aes_client.models import TimelineEventView

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
# Consecutive failures without an event. Services may be down for several minutes.
_RETRIES = 20
_STYLES = (
    ("failed", "red"), ("rejected", "red"), ("restarted", "yellow"), ("cancelled", "yellow"), ("required", "yellow"),
    ("completed", "green"), ("ready", "green"),
)  # fmt: skip
_OF_INTEREST = ("name", "decision", "reason", "status", "phase", "attempt", "resumed_from_step", "output")


@app.callback()
def events() -> None: ...


@app.command()
def tail(
    correlation_id: Annotated[str | None, typer.Option("--correlation-id", help="Filter by correlation ID.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Filter by session ID.")] = None,
    turn: Annotated[str | None, typer.Option("--turn", help="Filter by turn ID.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--type", help="Filter by type, or by prefix such as 'turn.*'. Repeatable."),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(
            "--after", min=0, help="Start after this position; 0 starts with the oldest event.", show_default="now"
        ),
    ] = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Follow the timeline until you press Ctrl-C. Resumes after a lost connection without losing or repeating an event.

    With --json, each event is one line of JSON.
    """
    console = Console(highlight=False)
    with failures_explained(json_output), connect(base_url, api_key).client(retries=_RETRIES) as client:
        following = client.events.follow(
            after=after,
            type=",".join(kind or ()) or None,
            correlation_id=correlation_id,
            session_id=session,
            turn_id=turn,
            on_lost=lambda why: note(f"{why}. Reconnecting …"),
        )
        try:
            for event in following:
                if json_output:
                    print_json(event)
                else:
                    console.print(line_of(event), soft_wrap=True)
        except KeyboardInterrupt:
            # Ctrl-C is the normal way to stop.
            raise typer.Exit(0) from None


def line_of(event: TimelineEventView) -> Text:
    """Formats an event as one line: position, local time, type, subject, and a summary of its data."""
    moment, name = event.time.astimezone(), event.type
    style = next((style for word, style in _STYLES if name.endswith(word)), "")
    return Text.assemble(
        (f"{event.position:>8}  ", "dim"),
        (f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}  ", "dim"),
        (f"{name:<28} ", style),
        (f"{event.subject}  ", "cyan"),
        summary_of(event.data),
    )


def summary_of(data: dict[str, Any]) -> str:
    """Returns the most important fields of an event's data as text."""
    if isinstance(data.get("error"), dict):
        return f"{data['error'].get('type')}: {data['error'].get('message')}"
    if isinstance(data.get("action"), dict):
        return f"{data['action'].get('kind')}: {json.dumps(data['action'].get('tool_call'), ensure_ascii=False)}"
    if isinstance(data.get("response"), dict):
        return " ".join(str(data["response"].get("content", "")).split())[:160]
    shown = {name: data[name] for name in _OF_INTEREST if isinstance(data.get(name), str | int)}
    return "  ".join(f"{name}={' '.join(str(value).split())[:80]}" for name, value in shown.items())

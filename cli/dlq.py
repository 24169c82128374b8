"""The `aes dlq` commands."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

import typer

from cli.commands import Commands
from cli.installation import bus_address
from cli.terminal import Json, failures_explained, note, print_json, print_table
from deploy.local.errors import StackError
from libs.contracts.errors import NotFound, ServiceError
from libs.contracts.timestamps import format_time
from libs.eventing.bus import BusUnavailable
from libs.eventing.dead_letters import (
    DeadLetterSession,
    ReplayOutcome,
    dead_letter_topic_named,
    dead_letter_topics,
    open_dead_letters,
)

T = TypeVar("T")
Topic = Annotated[str, typer.Argument(help="A dead-letter topic, from `aes dlq list`.")]
_CLIENT: Final = "aes-cli"
app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)


@app.command("list")
def list_all(
    everything: Annotated[bool, typer.Option("--all", help="Include empty topics.")] = False,
    json_output: Json = False,
) -> None:
    """List the dead-letter topics and how many messages each contains."""
    found = _read(_list, json_output)
    shown = [row for row in found if everything or row["letters"]]
    if json_output:
        print_json({"topics": shown})
        return
    if not shown:
        note("No dead-lettered messages.")
        return
    print_table(
        ("topic", "messages", "not replayed", "oldest", "newest"),
        [[row[name] for name in ("topic", "letters", "waiting", "oldest", "newest")] for row in shown],
    )


@app.command()
def show(
    topic: Topic,
    offset: Annotated[int | None, typer.Argument(help="Show only the message at this offset, in full.")] = None,
    payload: Annotated[
        bool, typer.Option("--payload", help="Also print the payload, which may contain personal data.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Maximum number of messages to list, newest first.")
    ] = 20,
    json_output: Json = False,
) -> None:
    """List a topic's messages, or show one message with its reason and headers."""
    if offset is None:
        letters = _read(lambda session: _newest(session, topic, limit), json_output)
        if json_output:
            print_json({"topic": topic, "letters": letters})
            return
        if not letters:
            note(f"No messages in {topic}.")
            return
        columns = ("offset", "type", "dead_since", "attempts", "replayed", "reason")
        print_table(columns, [[row[name] for name in columns] for row in letters])
        return
    document, value = _read(lambda session: _one(session, topic, offset), json_output)
    if payload:
        document["payload"] = value.decode(errors="replace")
    if json_output:
        print_json(document)
        return
    print_table(("", ""), [[name, part] for name, part in _lines(document)])


@app.command()
def replay(
    topic: Topic,
    offset: Annotated[
        list[int] | None,
        typer.Option("--offset", help="Replay only the message at this offset. Repeatable.", show_default="all"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    json_output: Json = False,
) -> None:
    """Replay dead-lettered messages to their original topic, oldest first and at most once each.

    All consumers of the topic receive the messages again, and skip those that they've processed. Commands whose failure
    was reported to the caller aren't executed again. Exits with 1 if a message couldn't be replayed.
    """
    waiting = _read(lambda session: session.content(dead_letter_topic_named(topic)), json_output).waiting
    chosen = waiting if offset is None else sorted(set(offset))
    if not chosen:
        note("Nothing to replay.")
    elif not yes:
        typer.confirm(f"Replay {_messages(len(chosen))} from {topic}?", abort=True, err=True)
    outcomes = _read(lambda session: _replay(session, topic, chosen), json_output) if chosen else []
    refused = [outcome for outcome in outcomes if outcome.refusal]
    if json_output:
        print_json({"topic": topic, "letters": [outcome.as_json() for outcome in outcomes]})
    else:
        for outcome in refused:
            note(f"Couldn't replay message {outcome.offset}. {outcome.refusal}")
        if outcomes:
            note(f"Replayed {_messages(len(outcomes) - len(refused))}.")
    if refused:
        raise typer.Exit(1)


def _read(work: Callable[[DeadLetterSession], Awaitable[T]], as_json: bool) -> T:
    async def run() -> T:
        address = bus_address()
        async with open_dead_letters(address.kafka, address.prefix, client_id=_CLIENT) as session:
            return await work(session)

    with failures_explained(as_json):
        try:
            return asyncio.run(run())
        except BusUnavailable as problem:
            raise StackError(str(problem), "Diagnose it with: ./aes doctor") from problem
        except NotFound as problem:
            raise StackError(
                problem.message,
                "List topics with: ./aes dlq list --all. Create missing ones with: ./aes topics create",
            ) from problem
        except ServiceError as problem:
            raise StackError(problem.message, "List the rest with: ./aes dlq list") from problem


async def _list(session: DeadLetterSession) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for found, content in (await session.contents(dead_letter_topics())).items():
        ends = [content.first, content.end - 1] if content.count else []
        oldest, newest = [format_time((await session.message(found, at)).arrived) for at in ends] or (None, None)
        rows.append(
            {
                "topic": found.name,
                "source": found.source,
                "consumer": found.consumer,
                "letters": content.count,
                "waiting": content.count - content.replayed.count(content.first, content.end),
                "oldest": oldest,
                "newest": newest,
            }
        )
    return rows


async def _newest(session: DeadLetterSession, topic: str, limit: int) -> list[dict[str, Any]]:
    found = dead_letter_topic_named(topic)
    content = await session.content(found)
    letters = await session.messages(found, max(content.first, content.end - limit), content.end)
    return [letter.summary(letter.offset in content.replayed) for letter in letters]


async def _one(session: DeadLetterSession, topic: str, offset: int) -> tuple[dict[str, Any], bytes]:
    found = dead_letter_topic_named(topic)
    content = await session.content(found)
    message = await session.message(found, offset)
    return message.as_json(offset in content.replayed), message.value


async def _replay(session: DeadLetterSession, topic: str, offsets: list[int]) -> list[ReplayOutcome]:
    async with session.replaying(dead_letter_topic_named(topic)) as replay:
        return [await replay.send(offset) for offset in offsets]


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _lines(document: dict[str, Any]) -> list[tuple[str, Any]]:
    lines = []
    for name, part in document.items():
        if isinstance(part, dict):
            lines += [(header, value) for header, value in part.items()]
        else:
            lines.append((name.replace("_", " "), part))
    return lines

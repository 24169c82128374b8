"""`aes dlq`."""

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
Topic = Annotated[str, typer.Argument(help="A dead-letter topic as `aes dlq list` names it.")]
_CLIENT: Final = "aes-cli"
app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)


@app.command("list")
def list_all(
    everything: Annotated[bool, typer.Option("--all", help="Name empty topics, too.")] = False,
    json_output: Json = False,
) -> None:
    """List the dead-letter topics with what lies in them."""
    found = _read(_list, json_output)
    shown = [row for row in found if everything or row["letters"]]
    if json_output:
        print_json({"topics": shown})
        return
    if not shown:
        note("There are no dead letters.")
        return
    print_table(
        ("topic", "letters", "not replayed", "oldest", "newest"),
        [[row[name] for name in ("topic", "letters", "waiting", "oldest", "newest")] for row in shown],
    )


@app.command()
def show(
    topic: Topic,
    offset: Annotated[int | None, typer.Argument(help="One letter, in full.", show_default="a list")] = None,
    payload: Annotated[bool, typer.Option("--payload", help="Its payload, too, which may be personal.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most letters of a list; the newest are shown.")] = 20,
    json_output: Json = False,
) -> None:
    """Show the letters of a topic, or one of them with its reason and headers."""
    if offset is None:
        letters = _read(lambda session: _newest(session, topic, limit), json_output)
        if json_output:
            print_json({"topic": topic, "letters": letters})
            return
        if not letters:
            note(f"There are no letters in {topic}.")
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
        list[int] | None, typer.Option("--offset", help="Only this letter; can be repeated.", show_default="all")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json_output: Json = False,
) -> None:
    """Send letters to the topic that they came from, oldest first, each once.

    All consumers of the topic see them again; those that have processed them before pass over them. A command whose
    caller was told of its failure is not carried out any more. Ends with exit code 1 when a letter had to stay.
    """
    waiting = _read(lambda session: _waiting(session, topic), json_output)
    chosen = waiting if offset is None else sorted(set(offset))
    if not chosen:
        note("There is nothing to replay.")
    elif not yes:
        typer.confirm(f"Send {_letters(len(chosen))} of {topic} to be processed again?", abort=True, err=True)
    outcomes = _read(lambda session: _replay(session, topic, chosen), json_output) if chosen else []
    refused = [outcome for outcome in outcomes if outcome.refusal]
    if json_output:
        print_json({"topic": topic, "letters": [outcome.as_json() for outcome in outcomes]})
    else:
        for outcome in refused:
            note(f"Letter {outcome.offset} stays where it is. {outcome.refusal}")
        if outcomes:
            note(f"Replayed {_letters(len(outcomes) - len(refused))}.")
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
            raise StackError(str(problem), "See what is wrong with: ./aes doctor") from problem
        except NotFound as problem:
            raise StackError(
                problem.message,
                "See the topics with: ./aes dlq list --all, make missing ones with: ./aes topics create",
            ) from problem
        except ServiceError as problem:
            raise StackError(problem.message, "See what is left with: ./aes dlq list") from problem


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


async def _waiting(session: DeadLetterSession, topic: str) -> list[int]:
    return (await session.content(dead_letter_topic_named(topic))).waiting


async def _replay(session: DeadLetterSession, topic: str, offsets: list[int]) -> list[ReplayOutcome]:
    async with session.replaying(dead_letter_topic_named(topic)) as replay:
        return [await replay.send(offset) for offset in offsets]


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count} letters"


def _lines(document: dict[str, Any]) -> list[tuple[str, Any]]:
    lines = []
    for name, part in document.items():
        if isinstance(part, dict):
            lines += [(header, value) for header, value in part.items()]
        else:
            lines.append((name.replace("_", " "), part))
    return lines

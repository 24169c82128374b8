"""`aes bench`."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.commands import Commands
from cli.terminal import Json, failures_explained, note, print_json

if TYPE_CHECKING:
    from benchmarks.report import Result

app = typer.Typer(cls=Commands, help="Measure the service.", no_args_is_help=True, add_completion=False)

Side = Literal["aes", "reference"]


class Engine(StrEnum):
    PGVECTOR = "pgvector"
    WEAVIATE = "weaviate"


Only = Annotated[Side | None, typer.Option("--only", help="Measure one side; there are no ratios then.")]
Rounds = Annotated[int, typer.Option("--rounds", min=1, max=20, help="How often the sides take turns.")]


def _report(as_json: bool, measure: Callable[[], Coroutine[Any, Any, "Result"]]) -> None:
    from benchmarks.machine import conditions
    from deploy.images.fallback_images.go_programs import NotBuilt
    from deploy.local.errors import StackError

    under = conditions()
    with failures_explained(as_json):
        try:
            result = asyncio.run(measure())
        except asyncio.CancelledError:
            # SIGTERM asked for the end; all processes that were started have ended.
            raise typer.Exit(143) from None
        except (ValueError, NotBuilt) as error:
            raise StackError(str(error)) from error
    if as_json:
        print_json({**under, **result.figures})
    else:
        result.show()
    raise typer.Exit(int(result.missed))


@app.command()
def turns(
    quick: Annotated[bool, typer.Option("--quick", help="One short round, to see that it works.")] = False,
    only: Only = None,
    scenario: Annotated[list[str] | None, typer.Option("--scenario", help="Only this one; repeatable.")] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, max=20, help="How often both sides take turns.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Measure turns of the service against an app written by hand, in one run of a few minutes.

    Starts a stack of its own with a model that answers at once, and ends it. What the figures mean and how to
    profile is in docs/contributing/performance.md.
    """
    from benchmarks.turns import FULL, QUICK, SIDES, run

    async def measure() -> "Result":
        plan = (QUICK if quick else FULL).only(*(scenario or ()))
        return await run(replace(plan, rounds=rounds or plan.rounds), (only,) if only else SIDES, note)

    _report(json_output, measure)


@app.command("growth")
def scaling(
    scale: Annotated[
        float, typer.Option("--scale", min=0.002, max=10, help="Millions of sessions, of ten turns each.")
    ] = 1.0,
    rounds: Rounds = 5,
    json_output: Json = False,
) -> None:
    """Measure turns, reads, searches and purges in an empty system and in one with a million sessions, in turns.

    Starts two stacks of its own and ends them. A million sessions have ten million turns and fifty million events, and
    come with a million passages of other knowledge bases: 52 GB. More than fits on the disk is refused.
    """
    from benchmarks.scaling import run

    _report(json_output, lambda: run(round(scale * 1_000_000), rounds, note))


@app.command()
def fair(
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="Of each of the two phases.")] = 60.0,
    json_output: Json = False,
) -> None:
    """Measure a company's operations alone and beside another company that floods every queue.

    Starts a stack of its own and ends it: four minutes on a quiet machine. Ends with 1 when a 95th percentile beside
    the flood is more than twice that of the company alone.
    """
    from benchmarks.fair import run

    _report(json_output, lambda: run(seconds, note))


@app.command()
def rest(
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="How long the stack is watched.")] = 180.0,
    kills: Annotated[int, typer.Option("--kills", min=0, help="How often each service's process is killed.")] = 3,
    json_output: Json = False,
) -> None:
    """Measure a stack with nothing to do: processor, memory, imports, its start, and processes that are killed.

    Starts a stack of its own and ends it. What must be downloaded for it should have been, by `aes up`.
    """
    from benchmarks.rest import run

    _report(json_output, lambda: run(seconds, kills, note))


@app.command()
def search(
    collection: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of labelled collections: corpus, queries, qrels (BEIR or TREC).", exists=True),
    ] = None,
    engine: Annotated[list[Engine] | None, typer.Option("--engine", help="Repeatable.")] = None,
    size: Annotated[
        list[int] | None, typer.Option("--size", min=1, help="Chunks in the index when searches are timed; repeatable.")
    ] = None,
    quality_only: Annotated[bool, typer.Option("--quality-only", help="Time nothing.")] = False,
    searches: Annotated[int, typer.Option("--searches", min=1, help="Searches of each mode at each size.")] = 100,
    json_output: Json = False,
) -> None:
    """Measure how good and how fast the search engines' answers are.

    Starts servers of its own and ends them. Weaviate is built by Go at its first use. Without a collection, a small
    one about the handbook in examples/ is used.
    """
    from benchmarks.search import SHIPPED, SIZES, run

    sizes = () if quality_only else tuple(size or SIZES)
    _report(json_output, lambda: run(engine or [Engine.PGVECTOR], collection or [SHIPPED], sizes, searches, note))


@app.command()
def ingest(
    folder: Annotated[Path, typer.Argument(help="Folder of documents, at any depth.", exists=True, file_okay=False)],
    rounds: Rounds = 1,
    side: Annotated[
        list[str] | None, typer.Option("--side", help="reference, 'one worker' or 'two workers'; repeatable.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Measure the ingestion of a folder with one and two workers against a script written by hand.

    Starts stacks of its own and ends them.
    """
    from benchmarks.ingest import SIDES, run

    _report(json_output, lambda: run(folder, rounds, side or SIDES, note))

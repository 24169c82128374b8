"""The `aes bench` commands."""

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

app = typer.Typer(cls=Commands, help="Run benchmarks.", no_args_is_help=True, add_completion=False)

Side = Literal["aes", "reference"]


class Engine(StrEnum):
    PGVECTOR = "pgvector"
    WEAVIATE = "weaviate"


Only = Annotated[
    Side | None,
    typer.Option(
        "--only",
        help="Measure only the service or only the handwritten app (`reference`), without ratios.",
        show_default="both",
    ),
]
Rounds = Annotated[int, typer.Option("--rounds", min=1, max=20, help="Number of rounds.")]


def _report(as_json: bool, measure: Callable[[], Coroutine[Any, Any, "Result"]]) -> None:
    from benchmarks.machine import conditions
    from deploy.images.fallback_images.go_programs import NotBuilt
    from deploy.local.errors import StackError

    under = conditions()
    with failures_explained(as_json):
        try:
            result = asyncio.run(measure())
        except asyncio.CancelledError:
            # SIGTERM asked the benchmark to stop.
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
    quick: Annotated[bool, typer.Option("--quick", help="Run one short round to check that everything works.")] = False,
    only: Only = None,
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", help="Run only this scenario. Repeatable.", show_default="all")
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, max=20, help="Number of rounds.")] = None,
    json_output: Json = False,
) -> None:
    """Compare turn throughput and latency with those of a handwritten app, in a few minutes.

    Starts a separate stack with a model stub that responds immediately, and stops it afterwards.
    docs/contributing/performance.md explains the figures and how to profile.
    """
    from benchmarks.turns import FULL, QUICK, SIDES, run

    async def measure() -> "Result":
        plan = (QUICK if quick else FULL).only(*(scenario or ()))
        return await run(replace(plan, rounds=rounds or plan.rounds), (only,) if only else SIDES, note)

    _report(json_output, measure)


@app.command("growth")
def scaling(
    scale: Annotated[
        float, typer.Option("--scale", min=0.002, max=10, help="Millions of sessions, with ten turns each.")
    ] = 1.0,
    rounds: Rounds = 5,
    json_output: Json = False,
) -> None:
    """Compare turns, reads, searches and purges in an empty system with those in a system with a million sessions.

    Starts two separate stacks and stops them afterwards. Needs 52 GB for ten million turns, fifty million events and a
    million passages.
    """
    from benchmarks.scaling import run

    _report(json_output, lambda: run(round(scale * 1_000_000), rounds, note))


@app.command()
def fair(
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="Duration of each of the two phases.")] = 60.0,
    json_output: Json = False,
) -> None:
    """Measure a company's latencies, first when it's alone, then while another company floods every queue.

    Starts a separate stack and stops it afterwards. Takes four minutes. Exits with 1 if a 95th percentile more than
    doubles during the flood.
    """
    from benchmarks.fair import run

    _report(json_output, lambda: run(seconds, note))


@app.command()
def rest(
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="How long to observe the idle stack.")] = 180.0,
    kills: Annotated[int, typer.Option("--kills", min=0, help="Number of times to kill each service's process.")] = 3,
    json_output: Json = False,
) -> None:
    """Measure an idle stack's CPU, memory, import times, startup time and restart times.

    Starts a separate stack and stops it afterwards. Run `aes up` first, which downloads the stack's programs.
    """
    from benchmarks.rest import run

    _report(json_output, lambda: run(seconds, kills, note))


@app.command()
def search(
    collection: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of labeled collections in BEIR or TREC format, with corpus, queries and qrels.", exists=True
        ),
    ] = None,
    engine: Annotated[
        list[Engine] | None,
        typer.Option("--engine", help="Search engine to measure. Repeatable.", show_default="pgvector"),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(
            "--size",
            min=1,
            help="Number of passages in the index for timed searches. Repeatable.",
            show_default="1000 and 100000",
        ),
    ] = None,
    quality_only: Annotated[bool, typer.Option("--quality-only", help="Measure only quality, not latency.")] = False,
    searches: Annotated[
        int, typer.Option("--searches", min=1, help="Number of searches per mode and index size.")
    ] = 100,
    json_output: Json = False,
) -> None:
    """Measure the quality and latency of the search engines.

    Starts separate servers and stops them afterwards. The first run with Weaviate builds the server with Go. The
    default collection is a small one about the handbook in examples/.
    """
    from benchmarks.search import SHIPPED, SIZES, run

    sizes = () if quality_only else tuple(size or SIZES)
    _report(json_output, lambda: run(engine or [Engine.PGVECTOR], collection or [SHIPPED], sizes, searches, note))


@app.command()
def ingest(
    folder: Annotated[Path, typer.Argument(help="Folder of documents, at any depth.", exists=True, file_okay=False)],
    rounds: Rounds = 1,
    side: Annotated[
        list[str] | None,
        typer.Option(
            "--side",
            help="Side to measure: reference, 'one worker' or 'two workers'. Repeatable.",
            show_default="all",
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Compare how fast the service (with one and two workers) and a handwritten script ingest a folder.

    Starts separate stacks and stops them afterwards.
    """
    from benchmarks.ingest import SIDES, run

    _report(json_output, lambda: run(folder, rounds, side or SIDES, note))

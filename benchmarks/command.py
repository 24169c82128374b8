"""`aes bench`."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.terminal import Json, failures_explained, note, print_json, print_table

app = typer.Typer(help="Measure the service.", no_args_is_help=True, add_completion=False)

Only = Annotated[
    Literal["aes", "reference"] | None, typer.Option("--only", help="Measure one side; there are no ratios then.")
]
Scenarios = Annotated[list[str] | None, typer.Option("--scenario", help="Only this one; repeatable.")]
Rounds = Annotated[int | None, typer.Option("--rounds", min=1, max=20, help="How often both sides take turns.")]


@contextmanager
def _explained(as_json: bool) -> Iterator[None]:
    import asyncio

    from benchmarks.children import LoadFailed
    from benchmarks.cpu import ProcessGone
    from deploy.local.errors import StackError

    with failures_explained(as_json):
        try:
            yield
        except asyncio.CancelledError:
            # SIGTERM asked for the end; all processes that were started have ended.
            raise typer.Exit(143) from None
        except (ValueError, LoadFailed, ProcessGone) as error:
            raise StackError(str(error)) from error


class Engine(StrEnum):
    PGVECTOR = "pgvector"
    WEAVIATE = "weaviate"


@app.command()
def turns(
    quick: Annotated[bool, typer.Option("--quick", help="One short round, to see that it works.")] = False,
    only: Only = None,
    scenario: Scenarios = None,
    rounds: Rounds = None,
    json_output: Json = False,
) -> None:
    """Measure turns of the service against an app written by hand, in one run of a few minutes.

    Starts a stack of its own with a model that answers at once, and ends it. What the figures mean and how to
    profile is in docs/performance.md.
    """
    import asyncio
    from dataclasses import replace

    from rich.console import Console

    from benchmarks import report
    from benchmarks.conditions import conditions
    from benchmarks.scenarios import FULL, QUICK
    from benchmarks.turns import SIDES, run

    under = conditions()
    with _explained(json_output):
        plan = QUICK if quick else FULL
        plan = plan.only(scenario) if scenario else plan
        plan = replace(plan, rounds=rounds) if rounds else plan
        windows = asyncio.run(run(plan, (only,) if only else SIDES, note))
    if json_output:
        print_json({**under, **report.as_json(windows)})
    else:
        report.show(windows, Console(highlight=False, width=120 if not Console().is_terminal else None))


@app.command("growth")
def scaling(
    scale: Annotated[
        float, typer.Option("--scale", min=0.002, max=10, help="Millions of sessions, of ten turns each.")
    ] = 1.0,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=20, help="How often the two take turns.")] = 5,
    json_output: Json = False,
) -> None:
    """Measure turns, reads, searches and purges in an empty system and in one with a million sessions, in turns.

    Starts two stacks of its own and ends them. A million sessions have ten million turns and fifty million events, and
    come with a million passages of other knowledge bases: 52 GB. More than fits on the disk is refused.
    """
    import asyncio
    from dataclasses import asdict

    from benchmarks.conditions import conditions
    from benchmarks.scaling.run import GOAL, run

    under = conditions()
    with _explained(json_output):
        grown = asyncio.run(run(round(scale * 1_000_000), rounds, note))
    if json_output:
        print_json({**under, **asdict(grown), "goal": GOAL})
        return
    rows = [
        (name, f"{grown.empty[name]:.1f}", f"{grown.grown[name]:.1f}", f"{ratio:.2f}", "" if ratio <= GOAL else "over")
        for name, ratio in grown.ratios.items()
    ]
    note(f"{grown.sessions:,} sessions and {grown.passages:,} passages: {grown.bytes / 1e9:.1f} GB")
    print_table(("p50, ms", "empty", "grown", "ratio", f"goal {GOAL}"), rows)


@app.command()
def fair(
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="Of each of the two phases.")] = 60.0,
    json_output: Json = False,
) -> None:
    """Measure a company's operations alone and beside another company that floods every queue.

    Starts a stack of its own and ends it: four minutes on a quiet machine. Ends with 1 when a 95th percentile beside
    the flood is more than twice that of the company alone.
    """
    import asyncio

    from benchmarks.conditions import conditions
    from benchmarks.fair.run import GOAL, run

    under = conditions()
    with _explained(json_output):
        found = asyncio.run(run(seconds, note))
    if json_output:
        print_json({**under, "seconds": seconds, "goal": GOAL, "operations": found})
    else:
        print_table(
            ("p95, ms", "alone", "beside the flood", "ratio"), [(name, *of.values()) for name, of in found.items()]
        )
    raise typer.Exit(any(of["ratio"] > GOAL for of in found.values()))


@app.command()
def rest(
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="How long the stack is watched.")] = 180.0,
    kills: Annotated[int, typer.Option("--kills", min=0, help="How often each service's process is killed.")] = 3,
    json_output: Json = False,
) -> None:
    """Measure a stack with nothing to do: processor, memory, imports, its start, and processes that are killed.

    Starts a stack of its own and ends it. What must be downloaded for it should have been, by `aes up`.
    """
    import asyncio
    from dataclasses import asdict

    from benchmarks.conditions import conditions
    from benchmarks.rest import run

    under = conditions()
    with _explained(json_output):
        found = asdict(asyncio.run(run(seconds, kills, note)))
    if json_output:
        print_json({**under, **found})
        return
    note(f"At rest for {found.pop('seconds'):.0f} s")
    for name, figures in found.items():
        print_table((name.replace("_", " "), ""), [(what, f"{figure:.2f}") for what, figure in figures.items()])
        print()


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
    import asyncio

    from rich.console import Console

    from benchmarks.search import report
    from benchmarks.search.collection import SHIPPED
    from benchmarks.search.run import Plan, run
    from deploy.images.fallback_images.go_programs import NotBuilt
    from deploy.local.errors import StackError

    plan = Plan(
        engines=[each.value for each in engine or (Engine.PGVECTOR,)],
        collections=collection or (SHIPPED,),
        sizes=() if quality_only else tuple(size or Plan.sizes),
        searches=searches,
    )
    with failures_explained(json_output):
        try:
            findings = asyncio.run(run(plan, note))
        except (ValueError, NotBuilt) as error:
            raise StackError(str(error)) from error
    if json_output:
        print_json(report.as_json(findings))
    else:
        report.show(findings, Console(highlight=False, width=120 if not Console().is_terminal else None))


@app.command()
def ingest(
    folder: Annotated[Path, typer.Argument(help="Folder of documents, at any depth.", exists=True, file_okay=False)],
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=20, help="How often the sides take turns.")] = 1,
    side: Annotated[
        list[str] | None, typer.Option("--side", help="reference, 'one worker' or 'two workers'; repeatable.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Measure the ingestion of a folder with one and two workers against a script written by hand.

    Starts parts of its own and ends them.
    """
    import asyncio

    from rich.console import Console

    from benchmarks.ingest import report
    from benchmarks.ingest.run import SIDES, run
    from benchmarks.ingest.service import IngestionFailed
    from deploy.local.errors import StackError

    with failures_explained(json_output):
        sides = side or list(SIDES)
        if unknown := set(sides) - set(SIDES):
            raise StackError(f"There is no side {', '.join(sorted(unknown))}; there are {', '.join(SIDES)}.")
        try:
            results = asyncio.run(run(folder, rounds=rounds, sides=sides, say=note))
        except IngestionFailed as error:
            raise StackError(str(error)) from error
    if json_output:
        print_json(report.as_json(results))
    else:
        report.show(results, Console(highlight=False, width=120 if not Console().is_terminal else None))

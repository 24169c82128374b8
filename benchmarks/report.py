"""The result of a run, for people and for scripts."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import TARGETS, Window, ratio, typical, typical_cpu
from benchmarks.load.job import Side

_FIGURES = ("rate", "p50", "p95", "p99", "first_text_p50", "first_text_p95", "creation_p50")
# More than this was busy with something else, and the figures say less than they seem to.
_NOISE_CORES = 0.2


def as_json(windows: Sequence[Window]) -> dict[str, Any]:
    return {
        "scenarios": [
            {
                "name": scenario,
                **{side: _summary(group) for side, group in _sides(windows, scenario)},
                "ratios": {figure: ratio(windows, scenario, figure) for figure in _FIGURES},
            }
            for scenario in _scenarios(windows)
        ],
        "targets": [
            {"name": target.name, "goal": target.goal, "at_least": target.at_least, "value": value, "met": met}
            for target in TARGETS
            for value in [target.value(windows)]
            for met in [None if value is None else target.met_by(value)]
        ],
        "windows": [asdict(each) for each in windows],
    }


def show(windows: Sequence[Window], console: Console) -> None:
    console.print(_speed(windows))
    console.print(_cpu(windows))
    if any(target.value(windows) is not None for target in TARGETS):
        console.print(_targets(windows))
    noisiest = max((each.elsewhere for each in windows), default=0.0)
    if noisiest > _NOISE_CORES:
        console.print(f"[yellow]Something else kept up to {noisiest:.1f} cores busy; measure on a quiet machine.[/]")


def _summary(group: Sequence[Window]) -> dict[str, Any]:
    return {**{figure: typical(group, figure) for figure in _FIGURES}, "cpu_ms_per_turn": typical_cpu(group)}


def _speed(windows: Sequence[Window]) -> Table:
    table = Table(title="Medians over the rounds; times in ms", title_justify="left")
    table.add_column("scenario")
    table.add_column("side")
    for heading in ("turns/s", "p50", "p95", "p99", "first token p50", "p95", "session p50"):
        table.add_column(heading, justify="right")
    for scenario in _scenarios(windows):
        sides = list(_sides(windows, scenario))
        for side, group in sides:
            figures = (_number(typical(group, figure)) for figure in _FIGURES)
            table.add_row(scenario, side, *figures, end_section=len(sides) == 1)
        if len(sides) == 2:
            ratios = (_number(ratio(windows, scenario, figure), 2) for figure in _FIGURES)
            table.add_row("", "[dim]ratio[/]", *ratios, end_section=True)
    return table


def _cpu(windows: Sequence[Window]) -> Table:
    names = list(dict.fromkeys(name for each in windows for name in each.cpu))
    table = Table(title="CPU, ms per turn", title_justify="left")
    table.add_column("scenario")
    table.add_column("side")
    for name in [*names, "stack", "sum"]:
        table.add_column(name, justify="right")
    for scenario in _scenarios(windows):
        for side, group in _sides(windows, scenario):
            cpu = typical_cpu(group)
            stack = typical(group, "stack_cpu") if side == "aes" else None
            figures = [*(cpu.get(name) for name in names), stack, sum(cpu.values())]
            table.add_row(scenario, side, *(_number(figure, 2) for figure in figures))
    return table


def _targets(windows: Sequence[Window]) -> Table:
    table = Table(title="Targets: the service against the reference app", title_justify="left")
    table.add_column("target")
    for heading in ("goal", "measured", ""):
        table.add_column(heading, justify="right")
    for target in TARGETS:
        value = target.value(windows)
        if value is None:
            continue
        goal = f"{'≥' if target.at_least else '≤'} {target.goal:g}{' times' if target.relative else ''}"
        verdict = "[green]met[/]" if target.met_by(value) else "[red]missed[/]"
        table.add_row(target.name, goal, _number(value, 2), verdict)
    return table


def _scenarios(windows: Sequence[Window]) -> list[str]:
    return list(dict.fromkeys(each.scenario for each in windows))


def _sides(windows: Sequence[Window], scenario: str) -> Iterator[tuple[Side, list[Window]]]:
    own = [each for each in windows if each.scenario == scenario]
    for side in dict.fromkeys(each.side for each in own):
        yield side, [each for each in own if each.side == side]


def _number(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}"

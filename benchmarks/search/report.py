"""The findings, for people and for scripts."""

import platform
from dataclasses import asdict
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.search.figures import Findings


def as_json(findings: Findings) -> dict[str, Any]:
    machine = {"cores": psutil.cpu_count(), "python": platform.python_version(), "system": platform.system()}
    return {"machine": machine, **asdict(findings)}


def show(findings: Findings, console: Console) -> None:
    if findings.quality:
        console.print(_quality(findings))
    if findings.latency:
        console.print(_filling(findings))
        console.print(_latency(findings))


def _quality(findings: Findings) -> Table:
    headings = ("nDCG@10", "recall@10", "MRR", "queries")
    table = _table("Retrieval quality", ("collection", "engine", "mode"), headings)
    for each in findings.quality:
        found = each.quality
        figures = (found.ndcg, found.recall, found.reciprocal_rank)
        table.add_row(
            each.collection, each.engine, each.mode, *(f"{figure:.4f}" for figure in figures), str(found.queries)
        )
    return table


def _filling(findings: Findings) -> Table:
    table = _table("Filling an index", ("engine",), ("chunks", "writing, ms a chunk", "finishing, s"))
    for each in findings.filling:
        milliseconds = 1000 * each.writing / max(1, each.written)
        table.add_row(each.engine, f"{each.chunks:,}", f"{milliseconds:.2f}", f"{each.finishing:.1f}")
    return table


def _latency(findings: Findings) -> Table:
    table = _table("One search, ms, its embedding included", ("engine", "search"), ("chunks", "p50", "p95"))
    for each in findings.latency:
        table.add_row(each.engine, each.search, f"{each.chunks:,}", f"{each.p50:.1f}", f"{each.p95:.1f}")
    return table


def _table(title: str, names: tuple[str, ...], figures: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name)
    for figure in figures:
        table.add_column(figure, justify="right")
    return table

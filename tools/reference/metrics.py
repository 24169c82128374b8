"""Generates the tables of docs/operate/metrics.md from the services' metrics."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.reference.markdown import names, table

ROOT = Path(__file__).parents[2]
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
_SECTIONS = {
    "gateway": ("aes_gateway_",),
    "timeline": ("aes_timeline_", "aes_webhook_"),
    "runtime": ("aes_runtime_",),
    "ingestion": ("aes_ingestion_",),
    "artifacts": ("aes_artifacts_",),
}


@dataclass(frozen=True)
class Metric:
    """A metric. ``name`` is its name in queries, without the suffixes of a histogram's series."""

    name: str
    kind: str
    labels: frozenset[str]
    meaning: str

    @property
    def series(self) -> set[str]:
        base = self.name.removesuffix("_total")
        return {base + suffix for suffix in _SUFFIXES[self.kind]}


@cache
def declared_metrics() -> dict[str, Metric]:
    """Returns the metrics by name, as read from the source, because the registry lacks labels of unused metrics."""
    sources = (file.read_text() for folder in ("libs", "services") for file in (ROOT / folder).rglob("*.py"))
    metrics = [each for source in sources if "prometheus_client" in source for each in _declared_in(source)]
    return {metric.name: metric for metric in metrics}


def _declared_in(source: str) -> Iterator[Metric]:
    """Raises ValueError if a name, meaning or label isn't a literal."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="Counter" | "Gauge" | "Histogram" as kind), args=arguments):
                name, meaning, *labels = map(ast.literal_eval, arguments)
                yield Metric(name, kind.lower(), frozenset(*labels), meaning)


def parts() -> dict[str, str]:
    sections: dict[str, list[tuple[str, ...]]] = {name: [] for name in ("every service", *_SECTIONS)}
    for name, metric in sorted(declared_metrics().items()):
        section = next((part for part, prefixes in _SECTIONS.items() if name.startswith(prefixes)), "every service")
        labels = names(sorted(metric.labels)) or "none"
        sections[section].append((f"`{name}`", metric.kind, labels, metric.meaning))
    return {name: table(("metric", "type", "labels", "meaning"), rows) for name, rows in sections.items()}

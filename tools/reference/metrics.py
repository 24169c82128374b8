"""Generates the tables of docs/operate/metrics.md from the services' metrics."""

import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prometheus_client import REGISTRY, Counter, Gauge, Histogram

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
    """A metric. ``name`` is the name in queries, without the suffixes of a histogram's series."""

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
    """Returns metrics by name. Imports every module that declares one."""
    for folder in ("libs", "services"):
        for file in (ROOT / folder).rglob("*.py"):
            if "prometheus_client" in file.read_text():
                importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    found = {}
    for collector in set(REGISTRY._collector_to_names):
        if isinstance(collector, Counter | Gauge | Histogram) and collector._name.startswith("aes_"):
            name = collector._name + ("_total" if isinstance(collector, Counter) else "")
            found[name] = Metric(name, collector._type, frozenset(collector._labelnames), collector._documentation)
    return found


def parts() -> dict[str, str]:
    sections: dict[str, list[tuple[str, ...]]] = {name: [] for name in ("every service", *_SECTIONS)}
    for name, metric in sorted(declared_metrics().items()):
        section = next((part for part, prefixes in _SECTIONS.items() if name.startswith(prefixes)), "every service")
        labels = names(sorted(metric.labels)) or "none"
        sections[section].append((f"`{name}`", metric.kind, labels, metric.meaning))
    return {name: table(("metric", "type", "labels", "meaning"), rows) for name, rows in sections.items()}

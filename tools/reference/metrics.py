"""Every metric that the services declare."""

import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prometheus_client import REGISTRY, Counter, Gauge, Histogram

ROOT = Path(__file__).parents[2]
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@dataclass(frozen=True)
class Metric:
    """``name`` as it is asked for, without the suffixes of a histogram's series."""

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
    """By name; imports whatever declares one."""
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

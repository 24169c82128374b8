"""Parses a Prometheus query: names of metrics, and the labels that it filters and groups by."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SELECTOR = re.compile(r"\b(aes_[a-z0-9_]+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|on|without)\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Asked:
    series: str
    labels: frozenset[str]


def asked_for(query: str) -> Iterator[Asked]:
    """Each metric with the labels in its own braces."""
    for name, matchers in _SELECTOR.findall(query):
        yield Asked(name, frozenset(_LABEL.findall(matchers)))


def grouped_by(query: str) -> set[str]:
    return {label.strip() for group in _GROUPING.findall(query) for label in group.split(",") if label.strip()}

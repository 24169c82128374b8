"""Finds the operation of a path, segment by segment."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.gateway.entrypoints.http.operations import Operation


@dataclass(slots=True)
class _Node:
    literal: dict[str, "_Node"] = field(default_factory=dict)
    parameter: "_Node | None" = None
    name: str = ""
    operations: dict[str, Operation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match:
    """The operations of a path by method, and the path's parameters."""

    operations: dict[str, Operation]
    parameters: dict[str, str]


class Routes:
    """A fixed name at some place of a path goes before a parameter at that place."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        node = self._root
        for segment in operation.path.split("/")[1:]:
            if segment.startswith("{"):
                node.parameter = node.parameter or _Node(name=segment[1:-1])
                node = node.parameter
            else:
                node = node.literal.setdefault(segment, _Node())
        if operation.method in node.operations:
            raise ValueError(f"two operations for {operation.method} {operation.path}")
        node.operations[operation.method] = operation

    def match(self, path: str) -> Match | None:
        """``path`` below ``/api/v1``; without a leading slash it is of some other ``/api/v1…``."""
        if not path.startswith("/"):
            return None
        node = self._root
        parameters: dict[str, str] = {}
        for segment in path.split("/")[1:]:
            child = node.literal.get(segment)
            if child is None:
                child = node.parameter if segment else None
                if child is None:
                    return None
                parameters[child.name] = segment
            node = child
        return Match(node.operations, parameters) if node.operations else None

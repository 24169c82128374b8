"""Lays an agent's policies over the definitions of its tools."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from services.runtime.domain.agents import ToolPolicy
from services.runtime.domain.tools import RedefinedTool, Tool, ToolDefinition


def under_policies(tools: Iterable[Tool], policies: Mapping[str, ToolPolicy]) -> list[Tool]:
    """The tools, with those that a policy changes redefined.

    A policy names a tool, or several by a pattern such as `tickets.*`. Of several the most specific one that says
    something counts: an exact name first, then the pattern with the most characters beside its wildcards.
    """
    if not policies:
        return list(tools)
    by_precedence = sorted(policies.items(), key=lambda item: _specificity(item[0]), reverse=True)
    return [_under(tool, [policy for pattern, policy in by_precedence if _names(pattern, tool)]) for tool in tools]


def _under(tool: Tool, policies: Iterable[ToolPolicy]) -> Tool:
    definition = tool.definition
    for name in ("approval", "timeout_seconds", "retries"):
        said = next((value for policy in policies if (value := getattr(policy, name)) is not None), None)
        if said is not None:
            definition = _with(definition, name, said)
    return tool if definition == tool.definition else RedefinedTool(tool, definition)


def _with(definition: ToolDefinition, name: str, said: object) -> ToolDefinition:
    # What the toolset wants approved stays so: an agent may be stricter, never more lenient.
    if name == "approval" and definition.approval == "always":
        return definition
    return replace(definition, **{name: said})  # type: ignore[arg-type]


def _names(pattern: str, tool: Tool) -> bool:
    return fnmatchcase(tool.definition.name, pattern)


def _specificity(pattern: str) -> tuple[bool, int]:
    return "*" not in pattern, len(pattern.replace("*", ""))

"""Combines a turn's built-in tools, toolset tools and client tools."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from libs.contracts.resources.toolsets import ToolsetType
from services.runtime.domain.agents import AgentSpec, AgentTask, ToolPolicy
from services.runtime.domain.tools import (
    ClientTool,
    RedefinedTool,
    Tool,
    Toolbox,
    ToolDefinition,
    ToolsetVersion,
    TurnTools,
)
from services.runtime.domain.toolsets import Toolset, ToolsetCatalogue, ToolsetConnector, connected_tools


def under_policies(tools: Iterable[Tool], policies: Mapping[str, ToolPolicy]) -> list[Tool]:
    """Returns the tools with the agent's policies applied.

    A policy applies to tools by name or by a pattern such as `tickets.*`. Each setting comes from the most specific
    policy that has it: an exact name first, then the pattern with the most literal characters.
    """
    if not policies:
        return list(tools)
    by_precedence = sorted(policies.items(), key=lambda item: _specificity(item[0]), reverse=True)
    return [
        _under(tool, [policy for pattern, policy in by_precedence if fnmatchcase(tool.definition.name, pattern)])
        for tool in tools
    ]


def _under(tool: Tool, policies: Iterable[ToolPolicy]) -> Tool:
    definition = tool.definition
    for name in ("approval", "timeout_seconds", "retries"):
        chosen = next((value for policy in policies if (value := getattr(policy, name)) is not None), None)
        if chosen is not None:
            definition = _with(definition, name, chosen)
    return tool if definition == tool.definition else RedefinedTool(tool, definition)


def _with(definition: ToolDefinition, name: str, value: object) -> ToolDefinition:
    # An agent may be stricter than the toolset, but not more lenient.
    if name == "approval" and definition.approval == "always":
        return definition
    return replace(definition, **{name: value})  # type: ignore[arg-type]


def _specificity(pattern: str) -> tuple[bool, int]:
    return "*" not in pattern, len(pattern.replace("*", ""))


NO_KNOWLEDGE: Final = "knowledge bases aren't available in this installation, so the agent answers without them"
_KNOWLEDGE_TOOL: Final = "knowledge_search"
_READING_TOOLS: Final = ("artifact_read", "artifact_search", "table_query")
_CONNECTED_TOOLSETS: Final = 500


class AgentTools:
    """Implements ToolSource. If an agent only has built-in tools, no other service is called."""

    def __init__(
        self,
        toolbox: Toolbox,
        catalogue: ToolsetCatalogue | None = None,
        connectors: Mapping[ToolsetType, ToolsetConnector] | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._catalogue = catalogue
        self._connectors = connectors or {}
        # The catalog returns the same object for the same version.
        self._connected = lru_cache(_CONNECTED_TOOLSETS)(self._connect)

    async def for_turn(
        self, task: AgentTask, *, any_files: bool = False, toolsets: Sequence[ToolsetVersion] | None = None
    ) -> TurnTools:
        names = list(self._names(task.agent, any_files=any_files))
        connected = await self._toolsets(task, names, toolsets)
        tools: list[Tool] = []
        warnings: list[str] = []
        if names and task.agent.knowledge_bases and _KNOWLEDGE_TOOL not in self._toolbox:
            warnings.append(NO_KNOWLEDGE)
        for name in names:
            found = self._named(name, connected)
            if not found:
                warnings.append(f"the tool {name!r} isn't available")
            tools += found
        # A client tool takes precedence over another tool with the same name, since it may be specific to this turn.
        tools = [
            *(ClientTool(definition) for definition in task.agent.client_tools),
            *under_policies(tools, task.agent.tool_policies),
        ]
        versions = [ToolsetVersion(toolset.name, toolset.version) for toolset in connected.values()]
        return TurnTools(tools, warnings=warnings, toolsets=versions)

    def _names(self, agent: AgentSpec, *, any_files: bool) -> Iterator[str]:
        """Returns the names of the agent's tools, and of the tools that files and knowledge bases need.

        An `llm_agent` has none.
        """
        if agent.agent_type == "llm_agent":
            return iter(())
        names = dict.fromkeys(agent.tools)
        if any_files:
            names.update(dict.fromkeys(name for name in _READING_TOOLS if name in self._toolbox))
        if agent.knowledge_bases and _KNOWLEDGE_TOOL in self._toolbox:
            names[_KNOWLEDGE_TOOL] = None
        return iter(names)

    async def _toolsets(
        self, task: AgentTask, names: Sequence[str], recorded: Sequence[ToolsetVersion] | None
    ) -> dict[str, Toolset]:
        wanted = dict.fromkeys(name.partition(".")[0] for name in names if "." in name)
        if recorded is not None:
            # A toolset that was missing at the start stays missing, so that the model's view doesn't change.
            began_with = {version.name for version in recorded}
            wanted = dict.fromkeys(name for name in wanted if name in began_with)
        if not wanted or self._catalogue is None:
            return {}
        found = await self._catalogue.toolsets(list(wanted), task.caller, recorded or ())
        return {toolset.name: toolset for toolset in found}

    def _named(self, name: str, toolsets: Mapping[str, Toolset]) -> Sequence[Tool]:
        if name in self._toolbox:
            return (self._toolbox[name],)
        toolset_name, _, tool_name = name.partition(".")
        toolset = toolsets.get(toolset_name)
        if toolset is None:
            return ()
        tools = self._connected(toolset)
        if tool_name == "*":
            return tuple(tools.values())
        return (tools[name],) if name in tools else ()

    def _connect(self, toolset: Toolset) -> Mapping[str, Tool]:
        connector = self._connectors.get(toolset.type)
        tools = connected_tools(connector, toolset) if connector is not None else ()
        return {tool.definition.name: tool for tool in tools}

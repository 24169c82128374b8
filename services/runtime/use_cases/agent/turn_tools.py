"""Composes the tools of a turn: built-in ones, those of toolsets, and those that the caller runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from services.runtime.domain.agents import AgentSpec, AgentTask
from services.runtime.domain.tools import ClientTool, Tool, Toolbox, TurnTools
from services.runtime.use_cases.agent.tool_policies import under_policies

NO_KNOWLEDGE: Final = "knowledge bases are not available in this installation; the agent answers without them"
_KNOWLEDGE_TOOL: Final = "knowledge_search"
_READING_TOOLS: Final = ("artifact_read", "artifact_search", "table_query")


@dataclass(frozen=True, slots=True)
class AgentTools:
    """A ToolSource. An agent whose tools are all built in costs no call of another service."""

    toolbox: Toolbox

    async def for_turn(self, task: AgentTask, *, any_files: bool = False) -> TurnTools:
        names = list(self._names(task.agent, any_files=any_files))
        warnings = [f"tool {name!r} is not available" for name in names if name not in self.toolbox]
        if task.agent.knowledge_bases and _KNOWLEDGE_TOOL not in self.toolbox:
            warnings.insert(0, NO_KNOWLEDGE)
        tools: list[Tool] = [self.toolbox[name] for name in names if name in self.toolbox]
        tools = under_policies(tools, task.agent.tool_policies)
        tools += [ClientTool(definition) for definition in task.agent.client_tools]
        return TurnTools(tools, warnings=warnings)

    def _names(self, agent: AgentSpec, *, any_files: bool) -> Iterator[str]:
        """The agent's tools, and those that its files and knowledge need where they are installed."""
        names = dict.fromkeys(agent.tools)
        if any_files:
            names.update(dict.fromkeys(name for name in _READING_TOOLS if name in self.toolbox))
        if agent.knowledge_bases and _KNOWLEDGE_TOOL in self.toolbox:
            names[_KNOWLEDGE_TOOL] = None
        return iter(names)

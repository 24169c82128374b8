"""Uses toolsets outside of turns, to list a target's tools or make a single call."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from libs.contracts.errors import ErrorDetail, NotFound, ValidationFailed
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import CallToolReply, ConnectedToolset, DiscoveredTools, ToolsetType, TryToolCall
from services.runtime.domain.tools import ToolContext, ToolFailed, cut_result
from services.runtime.domain.toolsets import Toolset, ToolsetConnector, connected_tools
from services.runtime.use_cases.agent.schemas import ArgumentSchemas
from services.runtime.use_cases.agent.tool_tries import ToolTries

Connectors = Mapping[ToolsetType, ToolsetConnector]


@dataclass(frozen=True, slots=True)
class TryToolset:
    connectors: Connectors
    tries: ToolTries
    schemas: ArgumentSchemas

    async def discover(self, toolset: ConnectedToolset, caller: Identity) -> DiscoveredTools:
        """Returns the target's tools. Raises ToolsetUnusable."""
        return await self._connector(toolset).discover(Toolset.from_contract(caller.company_id, toolset))

    async def call(self, call: TryToolCall, caller: Identity) -> CallToolReply:
        """Calls the tool once, without approval. Raises NotFound, or ValidationFailed for invalid arguments."""
        toolset = Toolset.from_contract(caller.company_id, call.toolset)
        tools = {tool.definition.name: tool for tool in connected_tools(self._connector(call.toolset), toolset)}
        tool = tools.get(f"{toolset.name}.{call.tool}")
        if tool is None:
            raise NotFound(f"The toolset {toolset.name!r} doesn't have a tool {call.tool[:100]!r}.")
        if problems := await self.schemas.problems(tool.definition, call.arguments):
            details = [
                ErrorDetail(loc=["arguments"], type="invalid", message=problem.removeprefix("arguments: "))
                for problem in problems
            ]
            raise ValidationFailed("; ".join(problems), details=details)
        context = ToolContext(call.call_id or new_id(), "", "", caller)
        began = monotonic()
        try:
            output = await self.tries.run(tool, call.arguments, context, once=True)
        except ToolFailed as problem:
            return CallToolReply(status="failed", output=cut_result(str(problem)), seconds=monotonic() - began)
        text = cut_result(output.text, cut=output.cut)
        return CallToolReply(status="completed", output=text, seconds=monotonic() - began)

    def _connector(self, toolset: ConnectedToolset) -> ToolsetConnector:
        connector = self.connectors.get(toolset.type)
        if connector is None:
            raise ValidationFailed(f"Toolsets of type {toolset.type!r} aren't supported in this installation.")
        return connector

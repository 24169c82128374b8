"""Measures and traces the calls of tools. No argument and no result is noted."""

from __future__ import annotations

from time import perf_counter

from libs import tracing
from services.runtime.adapters import metrics
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import Tool, Toolbox, ToolContext, ToolDefinition, ToolFailed, ToolOutput


class ObservedTool:
    """A Tool around another one. A call that takes too long is cancelled by whoever makes it."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    @property
    def definition(self) -> ToolDefinition:
        return self._tool.definition

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        name = self._tool.definition.name
        with tracing.span(
            f"execute_tool {name}",
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": context.call_id,
            },
        ):
            return await self._measured(name, arguments, context)

    async def _measured(self, name: str, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        began = perf_counter()
        outcome = "cancelled"
        try:
            output = await self._tool.call(arguments, context)
            outcome = "completed"
            return output
        except ToolFailed:
            outcome = "failed"
            raise
        except Exception:
            outcome = "crashed"
            raise
        finally:
            metrics.TOOL_CALLS.labels(name, outcome).inc()
            metrics.TOOL_SECONDS.labels(name).observe(perf_counter() - began)


def observed(toolbox: Toolbox) -> Toolbox:
    """The same tools, each call of which is measured."""
    return Toolbox(*(ObservedTool(tool) for tool in toolbox.values()))

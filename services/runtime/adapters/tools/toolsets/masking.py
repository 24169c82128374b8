"""Masks a toolset's secrets in the results, errors and logs of every connector."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from libs.contracts.errors import ErrorDetail
from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools, LeftOutTool
from services.runtime.adapters.tools.toolsets.secrets import Mask, ToolsetSecrets
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetConnector, ToolsetUnusable

_log = structlog.get_logger(__name__)
_ANNOTATIONS: Final = frozenset(("title", "description", "default", "examples", "const", "enum", "$comment"))


@dataclass(frozen=True, slots=True)
class MaskedConnector:
    """Wraps a ToolsetConnector and masks the toolset's secrets in results, errors and logs."""

    connector: ToolsetConnector
    secrets: ToolsetSecrets

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        try:
            found = await self.connector.discover(toolset)
        except ToolsetUnusable as problem:
            raise self._masked(toolset, problem.message, problem.details) from None
        except ToolFailed as problem:
            raise self._masked(toolset, str(problem)) from None
        mask = self.secrets.mask(toolset)
        return DiscoveredTools(
            tools=[_masked_tool(mask, tool) for tool in found.tools],
            left_out=[LeftOutTool(name=mask.hide(each.name), reason=mask.hide(each.reason)) for each in found.left_out],
        )

    def _masked(self, toolset: Toolset, message: str, details: Sequence[ErrorDetail] | None = None) -> ToolsetUnusable:
        mask = self.secrets.mask(toolset)
        masked = [each.model_copy(update={"message": mask.hide(each.message)}) for each in details or ()]
        return ToolsetUnusable(mask.hide(message), details=masked)

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        if not toolset.secrets:
            return await self.connector.call(toolset, tool, arguments, context)
        try:
            output = await self.connector.call(toolset, tool, arguments, context)
        except ToolFailed as problem:
            message = self.secrets.mask(toolset).hide(str(problem))
            failure = ToolFailed(message, retry=problem.retry, retry_after=problem.retry_after)
        except TimeoutError:
            raise
        except Exception as problem:
            name, kind = f"{toolset.name}.{tool.name}", type(problem).__name__
            masked = self.secrets.mask(toolset).hide(str(problem))
            _log.error(
                "tool.failed", tool=name, turn_id=context.turn_id, call_id=context.call_id, kind=kind, problem=masked
            )
            failure = ToolFailed(f"{name} failed: internal error ({kind}).")
        else:
            mask = self.secrets.mask(toolset)
            warnings = tuple(mask.hide(warning) for warning in output.warnings)
            return replace(output, text=mask.hide(output.text), warnings=warnings)
        # Raised outside the handler, because the original error would otherwise become the context and be logged.
        raise failure


def _masked_tool(mask: Mask, tool: ConnectedTool) -> ConnectedTool:
    parameters = _masked_texts(mask, tool.parameters)
    return tool.model_copy(update={"description": mask.hide(tool.description), "parameters": parameters})


def _masked_texts(mask: Mask, schema: Any, *, within_text: bool = False) -> Any:
    """Masks secrets in the schema's annotations, but not in names and keywords, which are needed to validate calls."""
    if isinstance(schema, str):
        return mask.hide(schema) if within_text else schema
    if isinstance(schema, list):
        return [_masked_texts(mask, item, within_text=within_text) for item in schema]
    if isinstance(schema, dict):
        return {
            name: _masked_texts(mask, value, within_text=within_text or name in _ANNOTATIONS)
            for name, value in schema.items()
        }
    return schema

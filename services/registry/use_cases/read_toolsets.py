"""Reads toolsets and calls their tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import CallToolReply, ConnectedTool, ConnectedToolset, TryToolCall
from services.registry.adapters.internal_api.runtime import HttpRuntimeCatalogues, HttpToolsetRuntime
from services.registry.adapters.postgres.secrets import PostgresSecretReader
from services.registry.adapters.postgres.toolsets import PostgresToolsetReader
from services.registry.domain.toolset import ToolsetNotFound, secret_names

# The caller keeps a connection open until the call ends.
_LONGEST_TRIAL_SECONDS: Final = 120.0


class ToolPage(BaseModel):
    tools: list[dict[str, Any]]
    total: int
    has_more: bool


@dataclass(frozen=True, slots=True)
class ReadToolsets:
    toolsets: PostgresToolsetReader
    secrets: PostgresSecretReader
    catalogues: HttpRuntimeCatalogues
    runtime: HttpToolsetRuntime

    async def connected(self, company_id: str, wanted: Sequence[tuple[str, int | None]]) -> list[ConnectedToolset]:
        """Returns toolsets with the ciphertexts of their secrets. Toolsets that don't exist are omitted."""
        found = await self.toolsets.versions(company_id, wanted)
        names = dict.fromkeys(name for toolset in found for name in secret_names(toolset.config))
        secrets = await self.secrets.ciphertexts(company_id, list(names))
        return [toolset.connected(secrets) for toolset in found]

    async def try_tool(self, caller: Identity, toolset: str, tool: str, arguments: dict[str, Any]) -> CallToolReply:
        """Calls a tool at most once and without approval. The call may take up to two minutes.

        Raises ``ToolsetNotFound``, or ``NotFound`` if the toolset doesn't have the tool.
        """
        for found in await self.connected(caller.company_id, [(toolset, None)]):
            chosen = [_bounded(each) for each in found.tools if each.name == tool]
            if not chosen:
                raise NotFound("The toolset doesn't have this tool.")
            only = found.model_copy(update={"tools": chosen})
            return await self.runtime.call(
                TryToolCall(toolset=only, tool=tool, arguments=arguments, call_id=new_id()), caller
            )
        raise ToolsetNotFound()

    async def tools(self, caller: Identity, *, limit: int, offset: int) -> ToolPage:
        """Returns the built-in tools, then the tools of the company's toolsets. Raises ``ServiceUnavailable``."""
        catalogue = await self.catalogues.current(caller)
        if catalogue is None:
            raise ServiceUnavailable(
                "The runtime isn't responding, so its tools can't be listed. Try again later.", retry_after=2
            )
        builtin = [dict(tool) for tool in catalogue.definitions]
        shown = builtin[offset : offset + limit]
        own = await self.toolsets.tools(
            caller.company_id, limit=limit - len(shown), offset=max(0, offset - len(builtin))
        )
        shown += [
            {"name": f"{toolset}.{tool.name}", **tool.model_dump(exclude={"name", "binding"}), "toolset": toolset}
            for toolset, tool in own
        ]
        total = len(builtin) + await self.toolsets.count_tools(caller.company_id)
        return ToolPage(tools=shown, total=total, has_more=offset + len(shown) < total)


def _bounded(tool: ConnectedTool) -> ConnectedTool:
    return tool.model_copy(update={"timeout_seconds": min(tool.timeout_seconds, _LONGEST_TRIAL_SECONDS)})

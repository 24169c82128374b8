"""Asks the runtime about the targets of toolsets."""

from typing import Final

from pydantic import BaseModel

from libs.contracts.api.toolsets import (
    CallToolReply,
    ConnectedToolset,
    DiscoveredTools,
    TryToolCall,
)
from libs.contracts.identity import Identity
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked

# Within the twenty seconds that the command may take before its transaction.
_DISCOVERY_SECONDS: Final = 18.0
# The runtime ends the call before, at the tool's time limit, which is two minutes at most here.
_CALL_SECONDS: Final = 130.0


class HttpToolsetRuntime:
    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls

    async def discover(self, toolset: ConnectedToolset, caller: Identity) -> DiscoveredTools:
        found = await self._post("/internal/toolsets/discover", toolset, caller, deadline=_DISCOVERY_SECONDS)
        return DiscoveredTools.model_validate_json(found)

    async def call(self, call: TryToolCall, caller: Identity) -> CallToolReply:
        reply = await self._post("/internal/toolsets/call", call, caller, deadline=_CALL_SECONDS, once=True)
        return CallToolReply.model_validate_json(reply)

    async def _post(
        self, path: str, body: BaseModel, caller: Identity, *, deadline: float, once: bool = False
    ) -> bytes:
        sent = body.model_dump_json().encode()
        request = self._calls.request("POST", "runtime", path, caller, body=sent, deadline=deadline, once=once)
        return checked(await request)

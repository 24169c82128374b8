"""Reads the runtime's models and tools, and calls the targets of toolsets through the runtime."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import orjson
import structlog
from pydantic import BaseModel

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import CallToolReply, ConnectedToolset, DiscoveredTools, TryToolCall
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.registry.domain.ports import Provider, RuntimeCatalogue

_FRESH_SECONDS: Final = 30.0
# Must be well below the timeout of the registry's callers, so that a response without the runtime's data still reaches
# them.
_DEADLINE_SECONDS: Final = 2.0
# While the runtime is down, only one validation per interval waits for a timeout.
_SILENCE_SECONDS: Final = 2.0
# A command's work before its transaction may take twenty seconds.
_DISCOVERY_SECONDS: Final = 18.0
# The runtime ends the call at the tool's time limit, which is at most two minutes.
_CALL_SECONDS: Final = 130.0

_log = structlog.get_logger(__name__)


class HttpRuntimeCatalogues:
    """Reads and caches the runtime's models and tools, which are the same for every company."""

    def __init__(self, calls: UpstreamClient, monotonic: Callable[[], float]) -> None:
        self._calls = calls
        self._monotonic = monotonic
        self._remembered: RuntimeCatalogue | None = None
        self._good_until = float("-inf")
        self._asking = asyncio.Lock()

    async def current(self, caller: Identity) -> RuntimeCatalogue | None:
        if self._monotonic() < self._good_until:
            return self._remembered
        async with self._asking:
            if self._monotonic() >= self._good_until:
                self._remembered = await self._ask(caller)
                lifetime = _SILENCE_SECONDS if self._remembered is None else _FRESH_SECONDS
                self._good_until = self._monotonic() + lifetime
            return self._remembered

    async def _ask(self, caller: Identity) -> RuntimeCatalogue | None:
        try:
            models, tools = await asyncio.gather(
                self._calls.get("runtime", "/internal/models", caller, deadline=_DEADLINE_SECONDS),
                self._calls.get("runtime", "/internal/tools", caller, deadline=_DEADLINE_SECONDS),
            )
            if (models.status, tools.status) != (200, 200):
                _log.warning("runtime_catalogue.refused", models=models.status, tools=tools.status)
                return None
            return _catalogue(orjson.loads(models.body), orjson.loads(tools.body))
        except ServiceUnavailable:
            _log.warning("runtime_catalogue.unreachable")
        except (ValueError, KeyError, TypeError) as problem:
            _log.error("runtime_catalogue.unreadable", problem=repr(problem))
        return None


def _catalogue(models: dict[str, Any], tools: dict[str, Any]) -> RuntimeCatalogue:
    providers = [
        Provider(
            name=item["provider"],
            configured=item["configured"],
            models=tuple(model["name"] for model in item["models"]),
            any_name=item["any_name"],
        )
        for item in models["providers"]
    ]
    return RuntimeCatalogue(
        providers={provider.name: provider for provider in providers},
        tools=tuple(item["name"] for item in tools["tools"]),
        definitions=tuple(tools["tools"]),
    )


class HttpToolsetRuntime:
    """Calls the targets of toolsets through the runtime, the only service that may call them."""

    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls

    async def discover(self, toolset: ConnectedToolset, caller: Identity) -> DiscoveredTools:
        """Returns the target's tools. Raises ``ValidationFailed`` with the target's error, or an outage error."""
        found = await self._post("/internal/toolsets/discover", toolset, caller, deadline=_DISCOVERY_SECONDS)
        return DiscoveredTools.model_validate_json(found)

    async def call(self, call: TryToolCall, caller: Identity) -> CallToolReply:
        """Calls a tool at most once."""
        reply = await self._post("/internal/toolsets/call", call, caller, deadline=_CALL_SECONDS, once=True)
        return CallToolReply.model_validate_json(reply)

    async def _post(
        self, path: str, body: BaseModel, caller: Identity, *, deadline: float, once: bool = False
    ) -> bytes:
        sent = body.model_dump_json().encode()
        request = self._calls.request("POST", "runtime", path, caller, body=sent, deadline=deadline, once=once)
        return checked(await request)

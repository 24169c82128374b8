"""Connects toolsets of type `openapi`, whose tools are the operations of an OpenAPI document."""

import asyncio
from typing import Final

from libs.confined import JobRefused, OutOfMemory, ProcessKilled, run_confined
from libs.contracts.resources.toolsets import MAX_DOCUMENT_BYTES, ConnectedTool, DiscoveredTools
from libs.outbound import FetchLimits, FetchRefused, GuardedHttp, GuardedResolver
from services.runtime.adapters.tools.answer_text import decoded
from services.runtime.adapters.tools.toolsets.http_target import HttpTarget, TargetRequest
from services.runtime.adapters.tools.toolsets.openapi.rendering import OperationBinding, render
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable

_COMPILER: Final = "services.runtime.adapters.tools.toolsets.openapi.operations"
_COMPILE_SECONDS: Final = 12.0
_MEMORY_BYTES: Final = 1024**3
_FETCH: Final = FetchLimits(timeout=7.0, largest_bytes=MAX_DOCUMENT_BYTES)
_ACCEPT: Final = "application/json, application/yaml;q=0.9, */*;q=0.5"


class OpenApiConnector:
    """Implements ToolsetConnector. Documents are compiled one at a time, in a process with limits."""

    def __init__(self, target: HttpTarget, resolver: GuardedResolver) -> None:
        self._target = target
        self._http = GuardedHttp(resolver=resolver, limits=_FETCH, accept=_ACCEPT)
        self._free = asyncio.Semaphore(1)

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        config = toolset.config
        document = config.get("document")
        if document is None:
            document = await self._fetched(config["document_url"])
        job = {
            "document": document,
            "document_url": config.get("document_url"),
            "base_url": config.get("base_url"),
            "operations": config.get("operations"),
            "headers": list(config.get("headers") or {}),
        }
        try:
            async with self._free:
                answer = await run_confined(_COMPILER, job, seconds=_COMPILE_SECONDS, memory_bytes=_MEMORY_BYTES)
        except (OutOfMemory, ProcessKilled):
            raise ToolsetUnusable("The OpenAPI document took too much time or memory to read.") from None
        except JobRefused as problem:
            raise ToolsetUnusable(f"The OpenAPI document can't be used: {problem}.") from None
        except TimeoutError:
            message = f"Reading the OpenAPI document took longer than {_COMPILE_SECONDS:g} seconds."
            raise ToolsetUnusable(message) from None
        return DiscoveredTools.model_validate(answer)

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        binding = OperationBinding.model_validate(tool.binding)
        url, headers, body = render(binding, arguments)
        request = TargetRequest(binding.method, url, {**headers, **(toolset.config.get("headers") or {})}, body)
        return await self._target.send(request, toolset, tool, context)

    async def _fetched(self, address: str) -> str:
        """Fetches the document's text. The toolset's headers aren't sent, because only its operations need them."""
        try:
            async with self._http.get(address) as response:
                if response.status >= 400:
                    raise ToolsetUnusable(f"The OpenAPI document's server returned status {response.status}.")
                return decoded(await self._http.read(response), response.charset, errors="strict")
        except FetchRefused as problem:
            message = f"The OpenAPI document can't be fetched: {problem}."
            raise ToolsetUnusable.at("document_url", message) from None
        except UnicodeDecodeError:
            raise ToolsetUnusable("The OpenAPI document isn't text.") from None

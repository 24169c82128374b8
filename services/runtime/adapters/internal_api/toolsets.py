"""Reads toolsets through the registry's internal API."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import ConnectedToolsets
from libs.retry import CircuitBreaker, RetryPolicy
from libs.service_defaults import UpstreamClient, UpstreamResponse
from libs.service_defaults.internal_calls import checked
from services.runtime.domain.tools import ToolsetVersion
from services.runtime.domain.toolsets import Toolset

_DEADLINE_SECONDS: Final = 5.0
_RETRIES: Final = RetryPolicy(longest=1.0, give_up_after=15.0)
_KEPT_BYTES: Final = 32 * 1024 * 1024


class HttpToolsets:
    """Implements ToolsetCatalogue over HTTP. Toolsets are fetched before every turn, since they may have changed."""

    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls
        self._breaker = CircuitBreaker(_RETRIES)
        self._decoded: OrderedDict[tuple[str, bytes], tuple[Toolset, ...]] = OrderedDict()
        self._kept_bytes = 0

    async def toolsets(
        self, names: Sequence[str], caller: Identity, versions: Sequence[ToolsetVersion] = (), /
    ) -> Sequence[Toolset]:
        # One request per toolset, because each response is cached.
        version_of = {version.name: version.version for version in versions}
        found = await asyncio.gather(*(self._toolset(name, version_of.get(name), caller) for name in names))
        return [toolset for toolsets in found for toolset in toolsets]

    async def _toolset(self, name: str, version: int | None, caller: Identity) -> tuple[Toolset, ...]:
        params = {"name": name, **({} if version is None else {"version": str(version)})}

        async def ask() -> UpstreamResponse:
            answer = await self._calls.get("registry", "/internal/toolsets", caller, params, deadline=_DEADLINE_SECONDS)
            if answer.status >= 500:
                raise ServiceUnavailable(f"The registry returned status {answer.status} for a toolset.")
            return answer

        body = checked(await self._breaker.run(ask, on=ServiceUnavailable))
        return self._decode(caller.company_id, body)

    def _decode(self, company_id: str, body: bytes) -> tuple[Toolset, ...]:
        key = (company_id, body)
        known = self._decoded.get(key)
        if known is not None:
            self._decoded.move_to_end(key)
            return known
        listed = ConnectedToolsets.model_validate_json(body).toolsets
        decoded = self._decoded[key] = tuple(Toolset.from_contract(company_id, item) for item in listed)
        self._kept_bytes += len(body)
        while self._kept_bytes > _KEPT_BYTES and len(self._decoded) > 1:
            (_, forgotten), _ = self._decoded.popitem(last=False)
            self._kept_bytes -= len(forgotten)
        return decoded

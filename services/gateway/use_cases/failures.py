"""Reads the internal errors that services have recorded."""

import asyncio
from dataclasses import dataclass
from typing import Final

import orjson
import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.operations import Failure, FailureList
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from libs.service_defaults.internal_routes import FAILURES_PATH

_log = structlog.get_logger("operations")
_OWNERS: Final = ("runtime", "ingestion", "artifacts", "registry", "timeline")
_MOST: Final = 100
_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Failures:
    upstreams: UpstreamClient

    async def newest(self, reader: Identity, correlation_id: str | None) -> FailureList:
        owners = [owner for owner in _OWNERS if self.upstreams.installed(owner)]
        found = await asyncio.gather(*(self._of(owner, reader, correlation_id) for owner in owners))
        failures = [failure for each in found if each is not None for failure in each]
        failures.sort(key=lambda failure: failure.at, reverse=True)
        unreachable = [owner for owner, each in zip(owners, found, strict=True) if each is None]
        return FailureList(failures=failures[:_MOST], unreachable=unreachable)

    async def _of(self, owner: str, reader: Identity, correlation_id: str | None) -> list[Failure] | None:
        params = {"limit": _MOST, **({} if correlation_id is None else {"correlation_id": correlation_id})}
        try:
            answer = await self.upstreams.request("GET", owner, FAILURES_PATH, reader, params=params, deadline=_SECONDS)
            return [Failure(**failure, service=owner) for failure in orjson.loads(checked(answer))]
        except ServiceUnavailable as problem:
            _log.warning("failures.not_read", service=owner, problem=problem.message)
            return None

"""Reports companies' limits and their use."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson
import structlog

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.accounts import LimitOfCompany
from libs.quotas import LIMITS, CompanyLimits
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.limits import API_KEYS, RATES, SharedLimits
from services.gateway.domain.ports import KeyStore

_log = structlog.get_logger("gateway.limits")
_SECONDS: Final = 1.0
_OWNERS: Final = ("runtime", "ingestion", "artifacts")


@dataclass(frozen=True, slots=True)
class Limits:
    known: CompanyLimits
    shared: SharedLimits
    keys: KeyStore
    upstreams: UpstreamClient

    async def of(self, caller: Identity) -> Mapping[str, LimitOfCompany]:
        company_id = caller.company_id
        rates = {name: limit for name in RATES if (limit := self.known.of(company_id, name)) is not None}
        owners = [self._amounts(owner, caller) for owner in _OWNERS if self.upstreams.installed(owner)]
        shared, keys, amounts = await asyncio.gather(
            self.shared.used(company_id, rates), self.keys.count_valid(company_id), asyncio.gather(*owners)
        )
        used = {API_KEYS: keys, **shared}
        for each in amounts:
            used.update(each)
        return {name: LimitOfCompany(limit=self.known.of(company_id, name), used=used.get(name)) for name in LIMITS}

    async def _amounts(self, owner: str, caller: Identity) -> dict[str, int]:
        """Returns a service's counts, or nothing if the service doesn't report them."""
        try:
            reply = await self.upstreams.request("GET", owner, "/internal/amounts", caller, deadline=_SECONDS)
            amounts: dict[str, int] = orjson.loads(checked(reply))
        except (ServiceUnavailable, NotFound) as problem:
            _log.warning("limits.not_read", service=owner, problem=problem.message)
            return {}
        return amounts

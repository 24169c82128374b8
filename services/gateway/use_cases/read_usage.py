"""Reads the usage of the caller, or of the whole company."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from libs.contracts.identity import Identity
from services.gateway.domain.usage import UsageGroup, UsagePage, UsageSpan, UsageStore


@dataclass(frozen=True, slots=True)
class ReadUsage:
    store: UsageStore

    async def __call__(
        self,
        reader: Identity,
        begin: datetime,
        end: datetime,
        groups: Sequence[UsageGroup],
        *,
        limit: int,
        offset: int,
    ) -> UsagePage:
        """Other users' usage takes a ``company:…`` scope."""
        user_id = None if reader.reads_company else reader.user_id
        span = UsageSpan(company_id=reader.company_id, user_id=user_id, begin=begin, end=end)
        return await self.store.usage(span, groups, limit=limit, offset=offset)

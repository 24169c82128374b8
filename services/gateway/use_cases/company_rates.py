"""Counts requests and turns against the rates of their company, over all gateways."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from libs.contracts.errors import ErrorInfo, RateLimited, StoreUnavailable, error_from, rate_exceeded
from libs.quotas import CompanyLimits
from services.gateway.domain.company_limits import TURNS, SharedLimits, block_of

_log = structlog.get_logger("gateway.limits")
_IDLE_SECONDS: Final = 600.0
_PRUNE_ABOVE: Final = 10_000
_OUTAGE_SECONDS: Final = 5.0
# A flood of refused requests is no flood of look-ups, nor one of turns that their worker refuses.
_SHORTEST_SECONDS: Final = 0.2
_BACKLOG_SECONDS: Final = 0.5


@dataclass(slots=True)
class _Bucket:
    """Tokens that this gateway has taken and not used yet; none is asked for before ``empty_until``."""

    tokens: int = 0
    empty_until: float = 0.0
    used_at: float = 0.0
    asking: asyncio.Task[None] | None = None


class CompanyRates:
    """Each gateway takes tokens in blocks, and the next block ahead of need: a request waits for none as a rule.

    While the database cannot be reached nothing is refused for a rate: those of keys hold in each gateway.
    """

    def __init__(self, shared: SharedLimits, limits: CompanyLimits, monotonic: Callable[[], float]) -> None:
        self._shared = shared
        self._limits = limits
        self._monotonic = monotonic
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._backlogs: dict[str, tuple[float, ErrorInfo]] = {}

    async def take_turn(self, company_id: str) -> None:
        """Takes a token for a turn. Raises ``RateLimited``, also for a moment after ``backlog_is_full``."""
        until, refusal = self._backlogs.get(company_id, (0.0, None))
        if refusal is not None and self._monotonic() < until:
            raise error_from(refusal)
        await self.take(company_id, TURNS)

    def backlog_is_full(self, company_id: str, refusal: RateLimited) -> None:
        """The company has as many turns in work as it may have: further ones are refused here, for a moment."""
        now = self._monotonic()
        self._backlogs = {company: full for company, full in self._backlogs.items() if now < full[0]}
        # Not the exception, whose traceback holds the request.
        self._backlogs[company_id] = (now + _BACKLOG_SECONDS, refusal.info())

    async def take(self, company_id: str, name: str) -> None:
        """Takes one token. Raises ``RateLimited`` when there is none."""
        limit = self._limits.of(company_id, name)
        if limit is None or not company_id:
            return
        now = self._monotonic()
        bucket = self._bucket(company_id, name, now)
        while bucket.tokens == 0:
            if (wait := bucket.empty_until - self._monotonic()) > 0:
                raise rate_exceeded(name, limit, limit, math.ceil(wait))
            # Whoever gives up must not take the tokens along that the others wait for.
            await asyncio.shield(self._ask(bucket, company_id, name, limit))
        bucket.tokens -= 1
        if bucket.tokens < block_of(limit) // 2 and bucket.empty_until <= now:
            self._ask(bucket, company_id, name, limit)

    def _bucket(self, company_id: str, name: str, now: float) -> _Bucket:
        bucket = self._buckets.get((company_id, name))
        if bucket is None:
            if len(self._buckets) >= _PRUNE_ABOVE:
                self._forget_idle(now)
            bucket = self._buckets[company_id, name] = _Bucket()
        bucket.used_at = now
        return bucket

    def _forget_idle(self, now: float) -> None:
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if bucket.asking is not None or now - bucket.used_at < _IDLE_SECONDS
        }

    def _ask(self, bucket: _Bucket, company_id: str, name: str, limit: int) -> asyncio.Task[None]:
        """The request for a block that is under way, or a new one."""
        if bucket.asking is None:
            bucket.asking = asyncio.create_task(self._refill(bucket, company_id, name, limit))
        return bucket.asking

    async def _refill(self, bucket: _Bucket, company_id: str, name: str, limit: int) -> None:
        block = block_of(limit)
        try:
            grant = await self._shared.take_tokens(company_id, name, block, limit)
        except StoreUnavailable as problem:
            _log.warning("limits.not_shared", limit=name, problem=str(problem).strip())
            bucket.tokens += max(block, math.ceil(limit * _OUTAGE_SECONDS / 60))
        else:
            bucket.tokens += grant.granted
            if grant.granted < block:
                # The time until there is a token, not a block: several gateways share what comes.
                wait = max(_SHORTEST_SECONDS, (1 - grant.left) * 60 / limit)
                bucket.empty_until = self._monotonic() + wait
        finally:
            bucket.asking = None

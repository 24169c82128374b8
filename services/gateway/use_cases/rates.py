"""Counts requests and turns against the rate limits of keys and companies, across all gateways."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from libs.contracts.errors import ErrorInfo, RateLimited, StoreUnavailable, rate_exceeded
from libs.quotas import CompanyLimits
from services.gateway.domain.limits import REQUESTS_OF_KEY, TURNS, SharedLimits

_log = structlog.get_logger("gateway.limits")
_IDLE_SECONDS: Final = 60.0
_PRUNE_ABOVE: Final = 10_000
_OUTAGE_SECONDS: Final = 5.0
# Keeps a flood of rejected requests from becoming a flood of queries, or of turns that workers refuse.
_SHORTEST_SECONDS: Final = 0.2
_BACKLOG_SECONDS: Final = 0.5
# While a company's backlog is full, ``Retry-After`` grows by a second for this many rejected callers, up to a maximum.
_RETRIES_PER_SECOND: Final = 20
_LONGEST_RETRY: Final = 7
_BLOCKS: Final = 20


def block_of(limit: int) -> int:
    """Returns how many tokens or slots a gateway takes at once: a twentieth of the limit, since some may go unused."""
    return max(1, limit // _BLOCKS)


@dataclass(slots=True)
class _Bucket:
    """Tokens that this gateway has taken but not used. The gateway doesn't request more before ``empty_until``."""

    tokens: int = 0
    empty_until: float = 0.0
    used_at: float = 0.0
    asking: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _FullBacklog:
    """A company's full backlog. ``until``: when to ask the runtime again. ``refused``: the number of rejections."""

    refusal: ErrorInfo
    until: float
    refused: float
    counted_at: float


class Rates:
    """Limits the rates of requests and turns. Each gateway takes tokens in blocks, so that requests rarely wait.

    While the database is unreachable, each gateway enforces the keys' limits independently, and doesn't enforce the
    companies' limits.
    """

    def __init__(self, shared: SharedLimits, limits: CompanyLimits, monotonic: Callable[[], float]) -> None:
        self._shared = shared
        self._limits = limits
        self._monotonic = monotonic
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._backlogs: dict[str, _FullBacklog] = {}

    async def take_of_key(self, key_id: str, per_minute: int | None) -> None:
        """Takes a token for a request with this key. Raises ``RateLimited`` above ``per_minute``."""
        if per_minute is not None and (wait := await self._take(key_id, REQUESTS_OF_KEY, per_minute)):
            raise RateLimited(
                f"The key has reached its rate limit ({per_minute} per minute). Try again later.", retry_after=wait
            )

    async def take(self, company_id: str, name: str) -> None:
        """Takes a token from the company's bucket ``name``. Raises ``RateLimited`` if the bucket is empty."""
        limit = self._limits.of(company_id, name)
        if limit is not None and company_id and (wait := await self._take(company_id, name, limit)):
            raise rate_exceeded(name, limit, limit, wait)

    async def take_turn(self, company_id: str) -> None:
        """Takes a token for a turn. Raises ``RateLimited`` above the limit, or if the company's backlog is full."""
        self.check_backlog(company_id)
        await self.take(company_id, TURNS)

    def check_backlog(self, company_id: str) -> None:
        """Raises ``RateLimited`` while the company's backlog is full."""
        if self.has_full_backlog(company_id):
            raise self._refused(self._backlogs[company_id])

    def has_full_backlog(self, company_id: str) -> bool:
        """Returns whether the company's turns are currently rejected, because the runtime has just refused a turn."""
        full = self._backlogs.get(company_id)
        return full is not None and self._monotonic() < full.until

    def backlog_is_full(self, company_id: str, refusal: RateLimited) -> RateLimited:
        """Records that the company has too many active turns. Its next turns are rejected here for half a second.

        Returns the error for the caller. ``retry_after`` grows with the number of rejected callers.
        """
        now = self._monotonic()
        self._backlogs = {
            company: full for company, full in self._backlogs.items() if now < full.until + _LONGEST_RETRY
        }
        # Keeps the error's fields instead of the exception, whose traceback would keep the request in memory.
        full = self._backlogs.setdefault(company_id, _FullBacklog(refusal.info(), 0.0, 0.0, now))
        full.refusal, full.until = refusal.info(), now + _BACKLOG_SECONDS
        return self._refused(full)

    def _refused(self, full: _FullBacklog) -> RateLimited:
        now = self._monotonic()
        back = (now - full.counted_at) * _RETRIES_PER_SECOND
        full.refused = min(max(full.refused - back, 0) + 1, _LONGEST_RETRY * _RETRIES_PER_SECOND)
        full.counted_at = now
        wait = max(full.refusal.retry_after or 1, math.ceil(full.refused / _RETRIES_PER_SECOND))
        return RateLimited(full.refusal.message, details=full.refusal.details, retry_after=wait)

    async def _take(self, holder: str, name: str, per_minute: int) -> int:
        """Takes a token and returns 0. If the bucket is empty, returns the number of seconds until the next token."""
        now = self._monotonic()
        bucket = self._bucket(holder, name, now)
        while bucket.tokens == 0:
            if (wait := bucket.empty_until - self._monotonic()) > 0:
                return math.ceil(wait)
            # Shielded: a caller that gives up mustn't cancel the request that others are waiting for.
            await asyncio.shield(self._ask(bucket, holder, name, per_minute))
        bucket.tokens -= 1
        if bucket.tokens < block_of(per_minute) // 2 and bucket.empty_until <= now:
            self._ask(bucket, holder, name, per_minute)
        return 0

    def _bucket(self, holder: str, name: str, now: float) -> _Bucket:
        bucket = self._buckets.get((holder, name))
        if bucket is None:
            if len(self._buckets) >= _PRUNE_ABOVE:
                self._forget_idle(now)
            bucket = self._buckets[holder, name] = _Bucket()
        bucket.used_at = now
        return bucket

    def _forget_idle(self, now: float) -> None:
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if bucket.asking is not None or now - bucket.used_at < _IDLE_SECONDS
        }

    def _ask(self, bucket: _Bucket, holder: str, name: str, per_minute: int) -> asyncio.Task[None]:
        """Returns the pending request for a block of tokens, or starts a request."""
        if bucket.asking is None:
            bucket.asking = asyncio.create_task(self._refill(bucket, holder, name, per_minute))
        return bucket.asking

    async def _refill(self, bucket: _Bucket, holder: str, name: str, per_minute: int) -> None:
        block = block_of(per_minute)
        try:
            grant = await self._shared.take_tokens(holder, name, block, per_minute)
        except StoreUnavailable as problem:
            _log.warning("limits.not_shared", limit=name, problem=str(problem).strip())
            granted = max(block, math.ceil(per_minute * _OUTAGE_SECONDS / 60))
            bucket.tokens += granted
            if name == REQUESTS_OF_KEY:
                bucket.empty_until = self._monotonic() + granted * 60 / per_minute
        else:
            bucket.tokens += grant.granted
            if grant.granted < block:
                # The time until a single token is available, because several gateways share the bucket.
                wait = max(_SHORTEST_SECONDS, (1 - grant.left) * 60 / per_minute)
                bucket.empty_until = self._monotonic() + wait
        finally:
            bucket.asking = None

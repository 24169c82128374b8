"""The state that gateways share about limits of companies, in memory."""

from collections import defaultdict
from collections.abc import Callable
from math import ceil, floor

from libs.persistence import Database
from libs.quotas import LIMITS, CompanyAmounts, CompanyLimits
from services.gateway.domain.limits import STREAMS, Grant, HeldSlots

NO_LIMITS = CompanyLimits(dict.fromkeys(LIMITS), {})


def uncounted(database: Database) -> CompanyAmounts:
    """Amounts without limits."""
    return CompanyAmounts(database, NO_LIMITS, [])


def usual_limits(**limits: int) -> CompanyLimits:
    """The same limits for every company; what is left out has none."""
    return CompanyLimits({**dict.fromkeys(LIMITS), **limits}, {})


class FakeSharedState:
    """The state of a database: ``tokens`` by holder and rate, ``slots`` by company and gateway."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.tokens: dict[tuple[str, str], tuple[float, float]] = {}
        self.slots: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.asked = 0
        self.outage: Exception | None = None


class FakeSharedLimits:
    """One gateway's access to it."""

    def __init__(self, state: FakeSharedState, gateway_id: str = "gateway-1") -> None:
        self.state = state
        self._gateway_id = gateway_id

    async def take_tokens(self, holder: str, name: str, wanted: int, per_minute: int) -> Grant:
        self._ask()
        now = self.state.monotonic()
        tokens, since = self.state.tokens.get((holder, name), (float(per_minute), now))
        tokens = min(per_minute, tokens + per_minute / 60 * (now - since))
        granted = min(wanted, floor(tokens))
        self.state.tokens[holder, name] = (tokens - granted, now)
        return Grant(granted, tokens - granted)

    async def hold_slots(self, company_id: str, wanted: int, limit: int) -> HeldSlots:
        self._ask()
        held = self.state.slots[company_id]
        others = sum(held.values()) - held.get(self._gateway_id, 0)
        held[self._gateway_id] = max(0, min(wanted, limit - others))
        return HeldSlots(held[self._gateway_id], others)

    async def renew_slots(self, held: dict[str, int]) -> None:
        self._ask()
        for company_id, slots in held.items():
            self.state.slots[company_id][self._gateway_id] = slots

    async def used(self, company_id: str, per_minute: dict[str, int]) -> dict[str, int]:
        used = {STREAMS: sum(self.state.slots[company_id].values())}
        for name, limit in per_minute.items():
            tokens, since = self.state.tokens.get((company_id, name), (limit, self.state.monotonic()))
            used[name] = ceil(max(0, limit - tokens - limit / 60 * (self.state.monotonic() - since)))
        return used

    def _ask(self) -> None:
        self.state.asked += 1
        if self.state.outage is not None:
            raise self.state.outage

"""Limits of a company: one figure for all gateways together, and what callers see of it."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.errors import RateLimited, StoreUnavailable, rate_exceeded
from services.gateway.domain.company_limits import REQUESTS, STREAMS, block_of
from services.gateway.use_cases.company_rates import CompanyRates
from services.gateway.use_cases.company_streams import CompanyStreams, StreamPermit
from tests.support.company_limits import FakeSharedLimits, FakeSharedState, usual_limits
from tests.support.gateway import Gateway, error_of, gateway

COMPANY = "company-1"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def taken(rates: CompanyRates, number: int) -> int:
    """The number of requests, of so many, that are let through."""
    passed = 0
    for _ in range(number):
        with suppress(RateLimited):
            await rates.take(COMPANY, REQUESTS)
            passed += 1
        # The next block is asked for meanwhile.
        await asyncio.sleep(0)
    return passed


@pytest.mark.rule(37)
@settings(deadline=None, max_examples=50)
@given(limit=st.integers(1, 2000), gateways=st.integers(1, 5))
def test_a_flood_through_any_number_of_gateways_gets_the_limit(limit: int, gateways: int) -> None:
    async def flood() -> int:
        clock = Clock()
        state = FakeSharedState(clock)
        replicas = [
            CompanyRates(FakeSharedLimits(state), usual_limits(requests_per_minute=limit), clock)
            for _ in range(gateways)
        ]
        return sum(await asyncio.gather(*(taken(rates, limit + 10) for rates in replicas)))

    assert asyncio.run(flood()) == limit


async def test_idle_gateways_keep_less_than_a_tenth_for_themselves() -> None:
    clock = Clock()
    state, limits = FakeSharedState(clock), usual_limits(requests_per_minute=1000)
    busy, idle = (CompanyRates(FakeSharedLimits(state), limits, clock) for _ in range(2))
    await taken(idle, 1)
    assert await taken(busy, 2000) >= 900


async def test_what_is_given_back_each_second_can_be_used() -> None:
    clock = Clock()
    rates = CompanyRates(FakeSharedLimits(FakeSharedState(clock)), usual_limits(requests_per_minute=600), clock)
    assert await taken(rates, 1000) == 600
    clock.now += 6
    assert await taken(rates, 1000) == 60


async def test_a_flood_is_no_flood_of_look_ups() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    rates = CompanyRates(FakeSharedLimits(state), usual_limits(requests_per_minute=100), clock)
    await taken(rates, 100)
    asked = state.asked
    await taken(rates, 1000)
    assert state.asked <= asked + 1


async def test_concurrent_requests_share_a_look_up() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    rates = CompanyRates(FakeSharedLimits(state), usual_limits(requests_per_minute=2000), clock)
    await asyncio.gather(*(rates.take(COMPANY, REQUESTS) for _ in range(40)))
    assert state.asked == 1


async def test_a_caller_who_leaves_takes_no_tokens_of_others_along() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    rates = CompanyRates(FakeSharedLimits(state), usual_limits(requests_per_minute=20), clock)
    leaving = asyncio.create_task(rates.take(COMPANY, REQUESTS))
    staying = asyncio.create_task(rates.take(COMPANY, REQUESTS))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert await taken(rates, 30) == 19


async def test_an_outage_refuses_nobody() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    state.outage = StoreUnavailable("gone")
    rates = CompanyRates(FakeSharedLimits(state), usual_limits(requests_per_minute=60), clock)
    assert await taken(rates, 100) == 100


def refused_turn() -> tuple[RateLimited, weakref.ref[Clock]]:
    """A refusal, and something that its traceback holds."""
    request = Clock()
    try:
        raise rate_exceeded("waiting_turns", 5, 5, 3)
    except RateLimited as refusal:
        return refusal, weakref.ref(request)


async def test_a_full_backlog_refuses_turns_for_a_moment_and_holds_no_request() -> None:
    clock = Clock()
    rates = CompanyRates(FakeSharedLimits(FakeSharedState(clock)), usual_limits(), clock)
    refusal, request = refused_turn()
    rates.backlog_is_full(COMPANY, refusal)
    expected = refusal.info()
    del refusal
    gc.collect()
    assert request() is None
    for _ in range(2):
        with pytest.raises(RateLimited) as again:
            await rates.take_turn(COMPANY)
        assert again.value.info() == expected
    clock.now += 1
    await rates.take_turn(COMPANY)


async def test_full_backlogs_of_the_past_are_forgotten() -> None:
    clock = Clock()
    rates = CompanyRates(FakeSharedLimits(FakeSharedState(clock)), usual_limits(), clock)
    for number in range(100):
        rates.backlog_is_full(f"company-{number}", rate_exceeded("waiting_turns", 5, 5, 3))
        clock.now += 0.2
    assert len(rates._backlogs) <= 3


async def entered(streams: CompanyStreams, number: int) -> list[StreamPermit]:
    permits = []
    for _ in range(number):
        with suppress(RateLimited):
            permits.append(await streams.enter(COMPANY))
    return permits


async def test_streams_of_all_gateways_have_one_limit() -> None:
    state, limits = FakeSharedState(Clock()), usual_limits(streams=100)
    first, second = (CompanyStreams(FakeSharedLimits(state, name), limits) for name in "ab")
    held = [*await entered(first, 60), *await entered(second, 60)]
    assert 90 <= len(held) <= 100
    assert len(await entered(second, 5)) == 0


async def test_places_of_ended_streams_come_back_to_the_other_gateways() -> None:
    state, limits = FakeSharedState(Clock()), usual_limits(streams=40)
    first, second = (CompanyStreams(FakeSharedLimits(state, name), limits) for name in "ab")
    for permit in await entered(first, 40):
        permit.release()
        # Twice counts once.
        permit.release()
    await first.renew()
    assert state.places[COMPANY]["a"] == 0
    assert len(await entered(second, 50)) == 40


async def test_a_gateway_that_stops_gives_its_places_back() -> None:
    state, limits = FakeSharedState(Clock()), usual_limits(streams=40)
    first = CompanyStreams(FakeSharedLimits(state, "a"), limits)
    held = await entered(first, 30)
    await first.close()
    assert state.places[COMPANY]["a"] == 0
    del held


async def test_a_permit_that_is_lost_is_released() -> None:
    streams = CompanyStreams(FakeSharedLimits(FakeSharedState(Clock())), usual_limits(streams=1))
    await streams.enter(COMPANY)
    assert len(await entered(streams, 1)) == 1


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.booleans()), max_size=30), st.integers(1, 60))
def test_places_never_exceed_the_limit(steps: list[tuple[int, int, bool]], limit: int) -> None:
    async def run() -> None:
        state, limits = FakeSharedState(Clock()), usual_limits(streams=limit)
        gateways = [CompanyStreams(FakeSharedLimits(state, str(number)), limits) for number in range(3)]
        held: list[list[StreamPermit]] = [[], [], []]
        for which, number, enters in steps:
            if enters:
                held[which] += await entered(gateways[which], number)
            else:
                held[which] = held[which][number:]
                await gateways[which].renew()
            assert sum(map(len, held)) <= limit
            assert sum(state.places[COMPANY].values()) <= limit + 2 * block_of(limit)

    asyncio.run(run())


@pytest.fixture
async def small() -> AsyncIterator[Gateway]:
    async with gateway(limits=usual_limits(requests_per_minute=20, turns_per_minute=2, api_keys=3)) as running:
        yield running


async def test_a_refused_request_says_which_limit_and_when_to_come_back(small: Gateway) -> None:
    for _ in range(20):
        assert (await small.client.get("/api-keys/")).status_code == 200
    refused = await small.client.get("/api-keys/")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    error = error_of(refused)
    assert error["type"] == "rate_limit_error"
    assert error["details"][0]["limit"] == {"name": REQUESTS, "limit": 20, "used": 20}


async def test_a_company_has_so_many_keys(small: Gateway) -> None:
    for _ in range(2):
        assert (await small.client.post("/api-keys/", json={"name": "k"})).status_code == 201
    refused = await small.client.post("/api-keys/", json={"name": "k"})
    assert refused.status_code == 403
    error = error_of(refused)
    assert error["type"] == "quota_exceeded"
    assert error["details"][0]["limit"] == {"name": "api_keys", "limit": 3, "used": 3}
    key_id = (await small.client.get("/api-keys/")).json()["api_keys"][0]["id"]
    assert (await small.client.post(f"/api-keys/{key_id}/rotate/")).status_code == 201


async def test_me_shows_limits_and_what_is_used(small: Gateway) -> None:
    small.upstreams.answers["GET", "runtime", "/internal/amounts"] = (200, {"sessions": 7})
    await small.client.get("/api-keys/")
    limits = (await small.client.get("/me/")).json()["limits"]
    assert limits["api_keys"] == {"limit": 3, "used": 1}
    assert limits["sessions"] == {"limit": None, "used": 7}
    # Of a service that does not answer.
    assert limits["files"] == {"limit": None, "used": None}
    assert limits["turns_per_minute"] == {"limit": 2, "used": 0}
    assert limits[REQUESTS] == {"limit": 20, "used": 2}
    assert limits[STREAMS] == {"limit": None, "used": 0}

"""Limits of a company: one figure for all gateways together, and what callers see of it."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import httpx
import pytest
from fastapi import Request
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from libs.contracts.errors import NotFound, RateLimited, StoreUnavailable, rate_exceeded
from libs.quotas import CompanyLimits
from services.gateway.domain.limits import REQUESTS, STREAMS
from services.gateway.entrypoints.door.callers import ANYBODY
from services.gateway.entrypoints.door.lifecycle import InFlightRequests, RequestLifecycleMiddleware
from services.gateway.entrypoints.door.streams import EventStreams
from services.gateway.use_cases.rates import Rates, block_of
from services.gateway.use_cases.stream_slots import StreamSlots
from tests.support.company_limits import FakeSharedLimits, FakeSharedState, usual_limits
from tests.support.gateway import Gateway, error_of, gateway

COMPANY = "company-1"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def taken(rates: Rates, number: int) -> int:
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
            Rates(FakeSharedLimits(state), usual_limits(requests_per_minute=limit), clock) for _ in range(gateways)
        ]
        return sum(await asyncio.gather(*(taken(rates, limit + 10) for rates in replicas)))

    assert asyncio.run(flood()) == limit


async def test_idle_gateways_keep_less_than_a_tenth_for_themselves() -> None:
    clock = Clock()
    state, limits = FakeSharedState(clock), usual_limits(requests_per_minute=1000)
    busy, idle = (Rates(FakeSharedLimits(state), limits, clock) for _ in range(2))
    await taken(idle, 1)
    assert await taken(busy, 2000) >= 900


async def test_what_is_given_back_each_second_can_be_used() -> None:
    clock = Clock()
    rates = Rates(FakeSharedLimits(FakeSharedState(clock)), usual_limits(requests_per_minute=600), clock)
    assert await taken(rates, 1000) == 600
    clock.now += 6
    assert await taken(rates, 1000) == 60


async def test_a_flood_is_no_flood_of_look_ups() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    rates = Rates(FakeSharedLimits(state), usual_limits(requests_per_minute=100), clock)
    await taken(rates, 100)
    asked = state.asked
    await taken(rates, 1000)
    assert state.asked <= asked + 1


async def test_concurrent_requests_share_a_look_up() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    rates = Rates(FakeSharedLimits(state), usual_limits(requests_per_minute=2000), clock)
    await asyncio.gather(*(rates.take(COMPANY, REQUESTS) for _ in range(40)))
    assert state.asked == 1


async def test_a_caller_who_leaves_takes_no_tokens_of_others_along() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    rates = Rates(FakeSharedLimits(state), usual_limits(requests_per_minute=20), clock)
    leaving = asyncio.create_task(rates.take(COMPANY, REQUESTS))
    staying = asyncio.create_task(rates.take(COMPANY, REQUESTS))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert await taken(rates, 30) == 19


@settings(deadline=None, max_examples=50)
@given(limit=st.integers(1, 2000), gateways=st.integers(1, 5))
def test_a_key_gets_its_rate_through_any_number_of_gateways(limit: int, gateways: int) -> None:
    async def flood(rates: Rates) -> int:
        passed = 0
        for _ in range(limit + 10):
            with suppress(RateLimited):
                await rates.take_of_key("key-1", limit)
                passed += 1
            await asyncio.sleep(0)
        return passed

    async def run() -> int:
        clock = Clock()
        state = FakeSharedState(clock)
        replicas = [Rates(FakeSharedLimits(state), usual_limits(), clock) for _ in range(gateways)]
        return sum(await asyncio.gather(*map(flood, replicas)))

    assert asyncio.run(run()) == limit


async def test_during_an_outage_each_gateway_counts_the_requests_of_keys_by_itself() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    state.outage = StoreUnavailable("gone")
    rates = Rates(FakeSharedLimits(state), usual_limits(), clock)
    passed = 0
    for _ in range(60):
        for _ in range(20):
            with suppress(RateLimited):
                await rates.take_of_key("key-1", 60)
                passed += 1
        clock.now += 1
    assert 60 <= passed <= 65


async def test_an_outage_refuses_nobody() -> None:
    clock = Clock()
    state = FakeSharedState(clock)
    state.outage = StoreUnavailable("gone")
    rates = Rates(FakeSharedLimits(state), usual_limits(requests_per_minute=60), clock)
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
    rates = Rates(FakeSharedLimits(FakeSharedState(clock)), usual_limits(), clock)
    refusal, request = refused_turn()
    told = rates.backlog_is_full(COMPANY, refusal)
    expected = refusal.info()
    assert told.info() == expected
    del refusal, told
    gc.collect()
    assert request() is None
    for _ in range(2):
        with pytest.raises(RateLimited) as again:
            await rates.take_turn(COMPANY)
        assert again.value.info() == expected
    clock.now += 1
    await rates.take_turn(COMPANY)


def told_to_return_after(rates: Rates, callers: int) -> list[int]:
    """Seconds after which each of that many callers at once may come back, whom a full backlog refuses."""
    return [rates.backlog_is_full(COMPANY, rate_exceeded("x", 5, 5, 2)).retry_after or 0 for _ in range(callers)]


def test_the_more_callers_a_full_backlog_refuses_the_later_they_come_back() -> None:
    clock = Clock()
    rates = Rates(FakeSharedLimits(FakeSharedState(clock)), usual_limits(), clock)
    assert told_to_return_after(rates, 1) == [2]
    seconds = told_to_return_after(rates, 300)
    assert seconds == sorted(seconds)
    assert (seconds[0], seconds[-1]) == (2, 7)
    # Not all in the same second.
    assert all(seconds.count(each) == 20 for each in range(3, 7))
    clock.now += 5
    assert told_to_return_after(rates, 1) == [3]
    clock.now += 60
    assert told_to_return_after(rates, 1) == [2]


async def test_full_backlogs_of_the_past_are_forgotten() -> None:
    clock = Clock()
    rates = Rates(FakeSharedLimits(FakeSharedState(clock)), usual_limits(), clock)
    for number in range(100):
        rates.backlog_is_full(f"company-{number}", rate_exceeded("waiting_turns", 5, 5, 3))
        clock.now += 0.2
    assert len(rates._backlogs) <= 40


class Streams:
    """Open streams of one gateway."""

    def __init__(self, shared: FakeSharedLimits, limits: CompanyLimits) -> None:
        self.slots = StreamSlots(shared, limits)
        self._open: list[AsyncExitStack] = []

    def __len__(self) -> int:
        return len(self._open)

    async def enter(self, number: int) -> int:
        """Opens that many streams, unless they are refused; returns how many were opened."""
        before = len(self)
        for _ in range(number):
            async with AsyncExitStack() as entering:
                with suppress(RateLimited):
                    await entering.enter_async_context(self.slots.taken(COMPANY))
                    self._open.append(entering.pop_all())
        return len(self) - before

    async def leave(self, number: int) -> None:
        for _ in range(min(number, len(self))):
            await self._open.pop().aclose()


async def test_streams_of_all_gateways_have_one_limit() -> None:
    state, limits = FakeSharedState(Clock()), usual_limits(streams=100)
    first, second = (Streams(FakeSharedLimits(state, name), limits) for name in "ab")
    assert 90 <= await first.enter(60) + await second.enter(60) <= 100
    assert await second.enter(5) == 0


async def test_places_of_ended_streams_come_back_to_the_other_gateways() -> None:
    state, limits = FakeSharedState(Clock()), usual_limits(streams=40)
    first, second = (Streams(FakeSharedLimits(state, name), limits) for name in "ab")
    assert await first.enter(40) == 40
    await first.leave(40)
    await first.slots.renew()
    assert state.slots[COMPANY]["a"] == 0
    assert await second.enter(50) == 40


async def test_a_gateway_that_stops_gives_its_places_back() -> None:
    state, limits = FakeSharedState(Clock()), usual_limits(streams=40)
    first = Streams(FakeSharedLimits(state, "a"), limits)
    await first.enter(30)
    await first.slots.close()
    assert state.slots[COMPANY]["a"] == 0


class SlowRenewal(FakeSharedLimits):
    """Its statements about places take until ``go_on``."""

    def __init__(self, state: FakeSharedState) -> None:
        super().__init__(state)
        self.began, self.go_on = asyncio.Event(), asyncio.Event()

    async def renew_slots(self, held: dict[str, int]) -> None:
        self.began.set()
        await self.go_on.wait()
        await super().renew_slots(held)


async def test_a_renewal_gives_no_places_away_that_are_taken_meanwhile() -> None:
    state, limits = FakeSharedState(Clock()), usual_limits(streams=100)
    shared = SlowRenewal(state)
    streams = Streams(shared, limits)
    await streams.enter(5)
    renewal = asyncio.create_task(streams.slots.renew())
    await shared.began.wait()
    entering = asyncio.create_task(streams.enter(20))
    for _ in range(100):
        await asyncio.sleep(0)
    shared.go_on.set()
    await renewal
    await entering
    assert len(streams) == 25
    assert state.slots[COMPANY]["gateway-1"] >= 25


async def test_a_response_that_is_never_sent_gives_its_place_back(public: Gateway) -> None:
    streams = EventStreams(
        public.clock.now, StreamSlots(FakeSharedLimits(FakeSharedState(Clock())), usual_limits(streams=1))
    )
    caller = replace(ANYBODY, identity=ANYBODY.identity.model_copy(update={"company_id": COMPANY}))
    closed = 0

    async def events() -> AsyncGenerator[bytes, None]:
        nonlocal closed
        try:
            yield b"event: x\n\n"
        finally:
            closed += 1

    async def application(scope: Scope, _receive: Receive, _send: Send) -> None:
        await streams.respond(Request(scope), events(), caller)
        raise NotFound("what came after the stream had begun")

    transport = httpx.ASGITransport(RequestLifecycleMiddleware(application, InFlightRequests()))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        assert [(await client.get("/")).status_code for _ in range(3)] == [404] * 3
    assert closed == 3


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.booleans()), max_size=30), st.integers(1, 60))
def test_places_never_exceed_the_limit(steps: list[tuple[int, int, bool]], limit: int) -> None:
    async def run() -> None:
        state, limits = FakeSharedState(Clock()), usual_limits(streams=limit)
        gateways = [Streams(FakeSharedLimits(state, str(number)), limits) for number in range(3)]
        for which, number, enters in steps:
            if enters:
                await gateways[which].enter(number)
            else:
                await gateways[which].leave(number)
                await gateways[which].slots.renew()
            assert sum(map(len, gateways)) <= limit
            assert sum(state.slots[COMPANY].values()) <= limit + 2 * block_of(limit)

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

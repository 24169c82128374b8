"""Requests of the company that sends most are refused while the gateway is too busy for all."""

import asyncio
import heapq
import random
from statistics import quantiles

import pytest

from libs.contracts.errors import RateLimited
from services.gateway.use_cases import load_shedding
from services.gateway.use_cases.load_shedding import LEAST_PER_SECOND, TICK_SECONDS, LoadShedding
from tests.support.waiting import elapse

LATE, IN_TIME = 0.05, 0.0


def passed(load: LoadShedding, seconds: float, late: float, **rates: float) -> dict[str, float]:
    """Requests a second that were let through in the last second of that time, by company."""
    through, owed = dict.fromkeys(rates, 0), dict.fromkeys(rates, 0.0)
    tick_seconds = TICK_SECONDS + late
    ticks = round(seconds / tick_seconds)
    counted = min(ticks, round(1 / tick_seconds))
    for tick in range(ticks):
        for company, rate in rates.items():
            owed[company] += rate * tick_seconds
            while owed[company] > 0.999:
                owed[company] -= 1
                let_through = load.take(company)[1] == 0
                through[company] += let_through and tick >= ticks - counted
        load.observe(late)
    return {company: number / (counted * tick_seconds) for company, number in through.items()}


@pytest.mark.parametrize(("rate", "late"), [(300, 0.01), (400, 0.05), (1000, 0.05), (2000, 0.02)])
def test_a_company_is_never_shut_out_while_its_bound_falls(rate: float, late: float) -> None:
    load, each_second = LoadShedding(), []
    for _ in range(60):
        each_second.append(passed(load, 1.0, late, flood=rate, quiet=10)["flood"])
    assert min(each_second) > 0.8 * LEAST_PER_SECOND


def test_nobody_is_bounded_who_is_alone_or_while_there_is_time_for_all() -> None:
    assert passed(LoadShedding(), 30, LATE, alone=1000) == pytest.approx({"alone": 1000}, abs=2)
    rates = passed(LoadShedding(), 30, IN_TIME, flood=1000, quiet=10)
    assert rates == pytest.approx({"flood": 1000, "quiet": 10}, abs=2)


def test_who_sends_most_is_bounded_while_the_event_loop_is_late_until_there_is_room_again() -> None:
    load = LoadShedding()
    rates = passed(load, 30, LATE, flood=1000, quiet=10)
    assert rates["quiet"] == pytest.approx(10, abs=1)
    assert rates["flood"] == pytest.approx(LEAST_PER_SECOND, rel=0.1)
    assert load.bounds == {"flood": LEAST_PER_SECOND}
    assert passed(load, 60, IN_TIME, flood=400, quiet=10) == pytest.approx({"flood": 400, "quiet": 10}, abs=2)
    assert load.bounds == {}


@pytest.mark.parametrize("late", [LATE, 0.1, 0.5])
def test_nobody_gets_less_than_the_least_of_a_second_however_late_the_event_loop_is(late: float) -> None:
    sent = {"one": LEAST_PER_SECOND - 10, "other": LEAST_PER_SECOND - 10, "little": 1}
    assert passed(LoadShedding(), 60, late, **sent) == pytest.approx(sent, abs=4)


def test_two_that_send_much_are_bounded_to_the_same() -> None:
    rates = passed(LoadShedding(), 60, LATE, one=800, other=400, quiet=5)
    assert rates["one"] == pytest.approx(rates["other"], rel=0.1)
    assert rates["quiet"] == pytest.approx(5, abs=1)


def test_who_begins_to_flood_is_bounded_and_not_who_sent_most_before() -> None:
    load = LoadShedding()
    passed(load, 10, IN_TIME, steady=200, flood=1)
    assert passed(load, 1, LATE, steady=200, flood=1000)["steady"] == pytest.approx(200, abs=10)


def test_a_stall_costs_seconds_and_no_more() -> None:
    load = LoadShedding()
    passed(load, 10, IN_TIME, flood=400, quiet=10)
    passed(load, 0.3, 0.2, flood=400, quiet=10)
    assert passed(load, 6, IN_TIME, flood=400, quiet=10) == pytest.approx({"flood": 400, "quiet": 10}, abs=2)


def test_who_is_refused_is_told_to_come_back_less_often() -> None:
    load = LoadShedding()
    passed(load, 30, LATE, flood=500, quiet=10)
    waits = {load.take("flood")[1] for _ in range(300)} - {0}
    # Not all at the same time.
    assert waits == {5, 6, 7, 8, 9, 10}


def waits_of_a_quiet_company(load: LoadShedding | None, *, senders: int = 300, seconds: float = 60.0) -> list[float]:
    """Seconds that its requests take, sorted, beside senders that repeat at once, and what is refused when they may.

    Of an event loop that a request takes for 4 ms, a refusal for half a millisecond, one after the other.
    """
    chance = random.Random(1)
    free, waits = 0.0, list[float]()
    due = [(chance.random() * 3, "flood", number) for number in range(senders)]
    due += [(0.1, "quiet", 0), (TICK_SECONDS, "tick", 0)]
    heapq.heapify(due)
    while (now := due[0][0]) < seconds:
        _, who, number = heapq.heappop(due)
        free = max(free, now)
        again = free + TICK_SECONDS
        if who == "tick":
            if load is not None:
                load.observe(free - now)
            heapq.heappush(due, (again, who, number))
            continue
        pause, wait = load.take(who) if who != "paused" and load is not None else (0.0, 0)
        assert who != "quiet" or pause == wait == 0
        if wait:
            free += 0.0005
            again = free + wait
        elif not pause:
            free += 0.004
            again = free + 0.01
            if who == "quiet":
                again = now + 0.15
                if now > 10:
                    waits.append(free - now)
            elif who == "paused":
                who = "flood"
        else:
            who, again = "paused", now + pause
        heapq.heappush(due, (again, who, number))
    return sorted(waits)


def percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def test_requests_of_others_find_the_event_loop_free_beside_a_flood() -> None:
    alone = waits_of_a_quiet_company(None, senders=0)
    unshed, shed = waits_of_a_quiet_company(None), waits_of_a_quiet_company(LoadShedding())
    assert percentile(unshed, 50) > 100 * percentile(alone, 95)
    assert percentile(shed, 50) <= 1.1 * percentile(alone, 50)
    assert percentile(shed, 95) < percentile(unshed, 95) / 100


def test_what_a_bounded_company_sends_at_once_is_spread_over_a_second() -> None:
    load = LoadShedding()
    passed(load, 30, LATE, flood=500, quiet=10)
    for _ in range(20):
        load.observe(LATE)
    each = [load.take("flood") for _ in range(100)]
    pauses = [pause for pause, wait in each if wait == 0]
    assert len(pauses) == LEAST_PER_SECOND
    assert sum(pause == 0 for pause in pauses) == LEAST_PER_SECOND / 5
    assert pauses == sorted(pauses)
    assert max(pauses) <= 0.8
    assert load.take("quiet") == (0, 0)


@pytest.mark.virtual_time
async def test_the_event_loop_is_watched_while_companies_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    load, late = LoadShedding(), list[float]()
    monkeypatch.setattr(load, "observe", late.append)
    watching = asyncio.create_task(load.run())
    await load.admit("quiet")
    await elapse(10 * TICK_SECONDS)
    assert not late
    await load.admit("flood")
    await elapse(10.5 * TICK_SECONDS)
    assert late == pytest.approx([0.0] * 10, abs=0.001)
    watching.cancel()


@pytest.mark.virtual_time
async def test_the_first_is_told_why_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_shedding, "_MOST_HELD", 40)
    load = LoadShedding()
    passed(load, 30, LATE, flood=500, quiet=10)
    begun = [asyncio.create_task(load.admit("flood")) for _ in range(100)]
    await asyncio.sleep(0)
    refused_at_once = [each for each in begun if each.done() and each.exception() is not None]
    await load.admit("quiet")
    outcomes = await asyncio.gather(*begun, return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, RateLimited)]
    assert 0 < len(begun) - len(refusals) <= LEAST_PER_SECOND
    assert len(refused_at_once) == len(refusals) - 40
    for refused in refusals:
        assert (refused.retry_after or 0) >= 1
        assert [each.type for each in refused.details or ()] == ["busy"]

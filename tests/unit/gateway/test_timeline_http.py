"""The timeline over its internal API: the gateway reads what the log has, and no more than a reader may see."""

from dataclasses import replace

import pytest

from libs.contracts.errors import PermissionDenied, ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.timeline import TimelineFilter
from libs.service_defaults.internal_calls import checked
from services.gateway.adapters.timeline_http import HttpTimeline
from services.gateway.domain.ports import Timeline
from tests.support.gateway import Gateway
from tests.support.timeline import COMPANY, FakeTimeline

EVERYTHING = TimelineFilter(company_id=COMPANY)


@pytest.fixture
def log(public: Gateway) -> FakeTimeline:
    for number in range(1, 8):
        public.timeline.add(
            type="turn.started" if number % 2 else "session.updated",
            subject="turn" if number % 2 else "session",
            sequence=number,
            session_id="s1" if number < 5 else None,
            turn_id="t1",
            owner_id=("ada", "bob", None)[number % 3],
            causation_id=None if number == 1 else "cause",
            version=number,
            # Line breaks and all: bytes are as they were published.
            data=b'{"text":\n"%d", "number": 1.0e2}' % number,
        )
    public.timeline.add(company_id="company-2")
    return public.timeline


@pytest.fixture
def http(public: Gateway) -> Timeline:
    return HttpTimeline(public.upstreams)


@pytest.mark.parametrize(
    "where",
    [
        EVERYTHING,
        replace(EVERYTHING, visible_to="ada"),
        replace(EVERYTHING, session_id="s1", types=("turn.*", "nothing")),
        replace(EVERYTHING, turn_id="t1", correlation_id="label", types=("session.updated",)),
        replace(EVERYTHING, company_id="company-3"),
    ],
)
async def test_pages_are_those_of_the_log(http: Timeline, log: FakeTimeline, where: TimelineFilter) -> None:
    for after in (0, 3):
        assert await http.page(where, after=after, limit=2) == await log.page(where, after=after, limit=2)
    for before in (None, 6):
        page = await http.page_back(where, before=before, limit=2)
        assert page == await log.page_back(where, before=before, limit=2)
    assert await http.newest(where) == await log.newest(where)


async def test_heads_are_those_of_the_log(http: Timeline, log: FakeTimeline) -> None:
    assert await http.heads([COMPANY, "company-2", "company-3"]) == {COMPANY: 7, "company-2": 1}


async def test_the_events_of_a_turn_are_those_of_the_log(http: Timeline, log: FakeTimeline) -> None:
    found = await http.turn(COMPANY, "turn", after_sequence=1)
    assert [event.sequence for event in found] == [3, 5, 7]
    assert found == await log.turn(COMPANY, "turn", after_sequence=1)
    assert await http.turn("company-2", "turn", after_sequence=0) == []


async def test_nobody_but_the_gateway_asks_for_the_heads_of_companies(public: Gateway) -> None:
    caller = Identity(company_id=COMPANY, user_id="ada", key_id="key", scopes=frozenset({"company:read"}))
    reply = await public.upstreams.request("POST", "timeline", "/internal/events/heads", caller, body=b'["company-2"]')
    with pytest.raises(PermissionDenied):
        checked(reply)


async def test_a_timeline_that_is_away_is_told_as_such(public: Gateway, http: Timeline) -> None:
    public.upstreams.down = True
    with pytest.raises(ServiceUnavailable):
        await http.page(EVERYTHING, after=0, limit=1)

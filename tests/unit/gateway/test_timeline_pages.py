"""``GET /events/`` by pages: filters, positions, who sees what."""

from typing import Any

import pytest

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identifiers import new_id
from services.gateway.domain.timeline import TimelineEvent
from tests.support.gateway import Gateway, error_of
from tests.support.public_agents import SHOP, connect

SESSION, OTHER_SESSION = new_id(), new_id()


def store(public: Gateway, **fields: Any) -> TimelineEvent:
    return public.timeline.add(**{"type": "turn.started", **fields})


async def page(public: Gateway, **parameters: Any) -> Any:
    answer = await public.client.get("/events/", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def positions(found: dict[str, Any]) -> list[int]:
    return [event["position"] for event in found["events"]]


async def test_an_event_is_shown_with_all_that_belongs_to_it(public: Gateway) -> None:
    stored = store(public, data=b'{"a": 1}', session_id=SESSION, turn_id="t", causation_id="c")
    store(public)
    first, second = (await page(public))["events"]
    assert first == {
        "id": stored.id, "position": 1, "type": "turn.started", "source": "/aes/test", "subject": stored.subject,
        "sequence": 1, "time": stored.time, "correlation_id": "label", "causation_id": "c", "session_id": SESSION,
        "turn_id": "t", "data": {"a": 1},
    }  # fmt: skip
    assert set(first) - set(second) == {"session_id", "turn_id"}


async def test_pages_follow_each_other_without_gap(public: Gateway) -> None:
    for _ in range(5):
        store(public)
    first = await page(public, limit=2)
    assert (positions(first), first["has_more"], first["next"]) == ([1, 2], True, 2)
    last = await page(public, limit=3, after=2)
    assert (positions(last), last["has_more"], last["next"]) == ([3, 4, 5], False, 5)
    nothing = await page(public, after=5)
    assert nothing == {"events": [], "has_more": False, "next": 5}
    store(public)
    assert positions(await page(public, after=nothing["next"])) == [6]


async def test_filters(public: Gateway) -> None:
    cases: list[Any] = [
        ({"session_id": SESSION}, [1, 2]),
        ({"turn_id": "t"}, [2, 4]),
        ({"correlation_id": "mine"}, [3, 4]),
        ({"correlation_id": "mine", "turn_id": "t"}, [4]),
        ({"type": "turn.completed"}, [2]),
        ({"type": "turn.*"}, [1, 2, 4]),
        ({"type": "*"}, [1, 2, 3, 4]),
        ({"type": "turn.completed,agent*"}, [2, 3]),
        ({"type": ["turn.completed", "turn.tool_call.*"]}, [2, 4]),
        ({"session_id": "no id at all"}, []),
        ({"turn_id": "\0"}, []),
    ]
    store(public, session_id=SESSION)
    store(public, session_id=SESSION, turn_id="t", type="turn.completed")
    store(public, correlation_id="mine", type="agent.created")
    store(public, correlation_id="mine", turn_id="t", type="turn.tool_call.started")
    for parameters, expected in cases:
        assert positions(await page(public, **parameters)) == expected, parameters


async def test_what_is_no_parameter_is_refused(public: Gateway) -> None:
    too_many = ",".join(f"t{number}" for number in range(51))
    types = ("", "Turn.*", "turn*started", "a,,b", "%00", too_many)
    positions = ("-1", "x", "1e3", "9223372036854775808", "")
    orders = ("order=newest", "before=3", "order=desc&after=3", "order=desc&before=x")
    cases = [*(f"type={each}" for each in types), *(f"after={each}" for each in positions), *orders]
    for query in cases:
        refused = await public.client.get(f"/events/?{query}")
        assert (refused.status_code, error_of(refused)["type"]) == (422, "validation_error")
        assert error_of(refused)["details"]


async def test_the_event_type_that_was_meant_is_suggested(public: Gateway) -> None:
    for given, hint in (
        ("turn.completd", "did you mean 'turn.completed'?"),
        ("no_such_thing.*", "type=turn.completed"),
    ):
        refused = await public.client.get(f"/events/?type=agent.*,{given}")
        assert refused.status_code == 422
        [detail] = error_of(refused)["details"]
        assert (detail["loc"], detail["hint"]) == (["query", "type"], hint)


async def test_pages_from_the_end_have_the_newest_events_first(public: Gateway) -> None:
    for _ in range(5):
        store(public)
    first = await page(public, order="desc", limit=2)
    assert (positions(first), first["has_more"], first["next"]) == ([5, 4], True, 4)
    store(public)
    last = await page(public, order="desc", limit=3, before=first["next"])
    assert (positions(last), last["has_more"], last["next"]) == ([3, 2, 1], False, 1)
    assert positions(await page(public, order="asc", limit=2)) == [1, 2]


async def test_a_stream_has_no_other_order(public: Gateway) -> None:
    refused = await public.client.get("/events/?order=desc", headers={"accept": "text/event-stream"})
    assert (refused.status_code, error_of(refused)["type"]) == (422, "validation_error")


async def test_a_page_that_looked_at_enough_says_where_to_go_on(public: Gateway) -> None:
    public.timeline.looked_at = 3
    for number in range(7):
        store(public, type="turn.failed" if number == 5 else "turn.started")
    found, after, pages = [], 0, 0
    has_more = True
    while has_more:
        each = await page(public, type="turn.failed", after=after)
        found += positions(each)
        after, has_more, pages = each["next"], each["has_more"], pages + 1
    assert (found, pages) == ([6], 3)


async def test_private_sessions_of_others_are_left_out_without_company_read(public: Gateway) -> None:
    for owner in (None, "user-1", "user-2", ""):
        store(public, owner_id=owner)
    store(public, company_id="company-2")
    assert positions(await page(public)) == [1, 2, 3, 4], "this key has company:read"
    secret, _ = public.keys.issue(scopes=frozenset({"events:read"}))
    public.client.headers["x-api-key"] = secret
    assert positions(await page(public)) == [1, 2]
    stranger, _ = public.keys.issue(company_id="company-2")
    public.client.headers["x-api-key"] = stranger
    assert positions(await page(public)) == [1], "of the other company"


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_public_key_has_to_name_a_session(public: Gateway, accept: str) -> None:
    connection = await connect(public)
    public.client.headers.pop("x-api-key")
    headers = {"Origin": SHOP, "accept": accept}
    for query in ("", "&turn_id=t", "&correlation_id=mine"):
        refused = await public.client.get(f"/events/?connection_key={connection.key}{query}", headers=headers)
        assert (refused.status_code, error_of(refused)["type"]) == (403, "permission_error")
        assert "session_id" in error_of(refused)["message"]


async def test_a_public_key_sees_its_own_sessions_only(public: Gateway) -> None:
    connection = await connect(public)
    store(public, session_id=SESSION, owner_id=connection.id)
    store(public, session_id=OTHER_SESSION, owner_id="user-1")
    public.client.headers.pop("x-api-key")
    public.client.headers["Origin"] = SHOP
    own = await page(public, connection_key=connection.key, session_id=SESSION)
    assert positions(own) == [1]
    assert positions(await page(public, connection_key=connection.key, session_id=OTHER_SESSION)) == []


async def test_a_timeline_that_is_away_is_a_503(public: Gateway) -> None:
    public.timeline.down = ServiceUnavailable("the timeline service cannot be reached")
    for accept in ("application/json", "text/event-stream"):
        answer = await public.client.get("/events/?after=0", headers={"accept": accept})
        assert answer.status_code == 503

"""``/usage/`` and ``/retention/``: who may read and set them, and to what."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from libs.contracts.messages import Event
from libs.contracts.resources.retention import Retention, RetentionUpdated, SetRetention
from tests.support.gateway import Gateway, Sent
from tests.support.usage import NOTHING


async def test_the_answer_has_sums_by_the_groups_that_were_asked_for(public: Gateway) -> None:
    given = {"day": "2026-01-02", "user_id": None, "turns": 2, "cost": "0.1", "seconds": 1.25}
    public.usage.items = [NOTHING.model_copy(update=given)]
    reply = await public.client.get(
        "/usage/", params={"from": "2026-01-01", "to": "2026-01-02", "group_by": "day,user"}
    )
    assert reply.status_code == 200
    found = reply.json()
    assert found["usage"] == [
        {
            "day": "2026-01-02",
            "user_id": None,
            "turns": 2,
            "input_tokens": 0,
            "output_tokens": 0,
            "tool_calls": 0,
            "seconds": 1.25,
            "cost": "0.1",
            "unpriced_turns": 0,
        }
    ]
    assert (found["from"], found["to"]) == ("2026-01-01T00:00:00.000000Z", "2026-01-03T00:00:00.000000Z")
    assert (found["group_by"], found["total"], found["has_more"]) == (["day", "user"], 1, False)
    assert found["totals"]["turns"] == 2


async def test_without_a_company_scope_it_is_the_callers_own(public: Gateway) -> None:
    secret, key = public.keys.issue(scopes=frozenset({"usage:read"}))
    assert (await public.client.get("/usage/", headers={"x-api-key": secret})).status_code == 200
    assert (await public.client.get("/usage/")).status_code == 200
    assert [span.user_id for span, _ in public.usage.asked] == [key.user_id, None]
    secret, _ = public.keys.issue(scopes=frozenset({"company:read"}))
    assert (await public.client.get("/usage/", headers={"x-api-key": secret})).status_code == 403


async def test_hours_are_whole_and_thirty_days_by_default(public: Gateway) -> None:
    await public.client.get("/usage/", params={"from": "2026-01-01T08:20:00Z", "to": "2026-01-01T11:20:00+01:00"})
    await public.client.get("/usage/")
    (hours, _), (month, _) = public.usage.asked
    assert (hours.begin, hours.end) == (datetime(2026, 1, 1, 8, tzinfo=UTC), datetime(2026, 1, 1, 11, tzinfo=UTC))
    assert (month.end - month.begin).days == 30
    assert month.begin <= public.clock.now() < month.end


async def test_queries_that_make_no_sense_are_refused(public: Gateway) -> None:
    cases: list[Any] = [
        {"from": "yesterday"},
        {"to": "2026-13-01"},
        {"to": "9999-12-31"},
        {"from": "2026-01-01T08:00:00"},
        {"from": "2026-01-03", "to": "2026-01-01"},
        {"from": "2020-01-01", "to": "2026-01-01"},
        {"group_by": "colour"},
        {"group_by": "day,"},
        {"limit": "5000"},
        {"days": "3"},
    ]
    for query in cases:
        reply = await public.client.get("/usage/", params=query)
        assert reply.status_code == 422, reply.text
        assert reply.json()["error"]["details"][0]["loc"][0] == "query"


def updated(sent: Sent) -> Iterable[Event]:
    assert isinstance(sent.command, SetRetention)
    days = sent.command.session_retention_days
    yield RetentionUpdated(retention=Retention(session_retention_days=days, default_session_retention_days=None))


async def test_a_company_sets_its_days(public: Gateway) -> None:
    for days in [1, 36_500, None]:
        public.bus.upstream = updated
        reply = await public.client.put("/retention/", json={"session_retention_days": days})
        assert reply.status_code == 200, reply.text
        assert reply.json() == {"session_retention_days": days, "default_session_retention_days": None}


async def test_other_days_are_refused(public: Gateway) -> None:
    for body in [
        {},
        {"session_retention_days": 0},
        {"session_retention_days": 36_501},
        {"session_retention_days": "7 d"},
    ]:
        reply = await public.client.put("/retention/", json=body)
        assert (reply.status_code, reply.json()["error"]["details"][0]["loc"]) == (422, ["session_retention_days"])
        assert public.bus.sent == []

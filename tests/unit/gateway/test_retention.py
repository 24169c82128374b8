"""``/retention/``: who may set it, and to what."""

from collections.abc import Iterable

from libs.contracts.messages import Event
from libs.contracts.resources.retention import Retention, RetentionUpdated, SetRetention
from tests.support.gateway import Gateway, Sent


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

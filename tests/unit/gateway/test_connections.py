"""Connections over HTTP: created, listed, deleted, within the rights of the maker."""

from typing import Any

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.identity import PUBLIC_SCOPES
from tests.support.gateway import Gateway, error_of
from tests.support.public_agents import AGENT_ID, SHOP, stored_agent


@pytest.fixture(autouse=True)
def agent(public: Gateway) -> None:
    public.upstreams.answers["GET", "registry", f"/internal/agents/{AGENT_ID}"] = (200, stored_agent())
    public.upstreams.answers["GET", "registry", "/internal/agents/by-key/support"] = (200, stored_agent())


async def make(public: Gateway, secret: str | None = None, **body: Any) -> Any:
    wanted = {"agent_id": AGENT_ID, "allowed_origins": [SHOP], **body}
    headers = {} if secret is None else {"x-api-key": secret}
    return await public.client.post("/connections/", json=wanted, headers=headers)


async def test_a_connection_is_made_for_an_agent(public: Gateway) -> None:
    made = await make(public, allowed_origins=["HTTPS://Shop.Example:443", SHOP, "http://localhost:3000"])
    shown = made.json()
    assert made.status_code == 201
    assert made.headers["location"] == f"/api/v1/connections/{shown['id']}/"
    assert shown["connection_key"].startswith("pub_")
    assert (shown["agent_id"], shown["agent_key"], shown["name"]) == (AGENT_ID, "support", "Support")
    assert shown["allowed_origins"] == [SHOP, "http://localhost:3000"]
    assert (shown["scopes"], shown["quota"], shown["expires_at"]) == (sorted(PUBLIC_SCOPES), None, None)
    by_key = await make(public, agent_id=None, agent_key="support", name="widget")
    assert (by_key.status_code, by_key.json()["name"]) == (201, "widget")
    listed = (await public.client.get("/connections/", params={"limit": 1})).json()
    assert (listed["connections"], listed["total"], listed["has_more"]) == ([by_key.json()], 2, True)
    assert (await public.client.get(f"/connections/{shown['id']}/")).json() == shown


async def test_what_makes_no_sense_is_refused(public: Gateway) -> None:
    cases: list[Any] = [
        ("allowed_origins", []),
        ("allowed_origins", ["*"]),
        ("allowed_origins", ["https://shop.example/"]),
        ("scopes", ["agents:write"]),
        ("scopes", []),
        ("quota", 0),
        ("expires_at", "2029-01-01T00:00:00Z"),
        ("surprise", 1),
        ("agent_key", "support"),
    ]
    for field, value in cases:
        refused = await make(public, **{field: value})
        assert (refused.status_code, error_of(refused)["type"]) == (422, "validation_error")
        place = error_of(refused)["details"][0]["loc"]
        assert place[:1] in ([field], [])


async def test_an_agent_that_the_maker_cannot_see_is_not_there(public: Gateway) -> None:
    for unknown in (new_id(), "nonsense"):
        refused = await make(public, agent_id=unknown)
        assert (refused.status_code, error_of(refused)["type"]) == (404, "not_found_error")


async def test_a_key_that_is_none_is_no_agents(public: Gateway) -> None:
    for key in [".", "..", "../public", "No key", "support\n"]:
        refused = await make(public, agent_id=None, agent_key=key)
        assert (refused.status_code, error_of(refused)["type"]) == (404, "not_found_error")
        assert not public.upstreams.asked


async def test_public_principals_cannot_be_given_more_than_the_maker_has(public: Gateway) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({"keys:write", "sessions:read"}), rate_limit=100)
    assert (await make(public, secret)).json()["scopes"] == ["sessions:read"]
    assert (await make(public, secret)).json()["quota"] == 100
    bare, _ = public.keys.issue(scopes=frozenset({"keys:write", "agents:read"}))
    refusals = [
        await make(public, secret, scopes=["runtime:execute"]),
        await make(public, secret, quota=101),
        await make(public, bare),
        await make(public, public.keys.issue(scopes=frozenset({"keys:read"}))[0]),
    ]
    assert {(refused.status_code, error_of(refused)["type"]) for refused in refusals} == {(403, "permission_error")}


async def test_a_repeat_gets_the_connection_that_was_made_until_it_is_deleted(public: Gateway) -> None:
    body = {"agent_id": AGENT_ID, "allowed_origins": [SHOP], "expires_at": "2030-06-01T00:00:00Z"}
    headers = {"Idempotency-Key": "once"}
    first, again = [await public.client.post("/connections/", json=body, headers=headers) for _ in range(2)]
    other = await public.client.post("/connections/", json={**body, "name": "b"}, headers=headers)
    assert (first.json(), again.status_code, other.status_code) == (again.json(), 201, 422)
    assert first.json()["expires_at"] == "2030-06-01T00:00:00.000000Z"
    assert len(public.connections.stored) == 1
    place = f"/connections/{first.json()['id']}/"
    assert [(await public.client.delete(place)).status_code for _ in range(2)] == [204, 404]
    assert (await public.client.post("/connections/", json=body, headers=headers)).status_code == 409

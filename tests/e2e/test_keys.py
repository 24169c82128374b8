"""API keys: who is let in, for how long and for what."""

from typing import Any

import httpx

from tests.e2e.api import Api, check_error, new_client, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import until


async def make_key(api: Api, **fields: Any) -> dict[str, Any]:
    reply = await api.http.post("/api-keys/", json={"name": unique("key"), **fields})
    assert reply.status_code == 201, reply.text
    key: dict[str, Any] = reply.json()
    return key


async def refused(client: httpx.AsyncClient, key: str) -> httpx.Response | None:
    reply = await client.get("/me/", headers={"x-api-key": key})
    return reply if reply.status_code == 401 else None


async def test_a_key_is_a_bearer_too_and_counts_for_nothing_elsewhere(
    anonymous: httpx.AsyncClient, stack: RunningStack
) -> None:
    assert (await anonymous.get("/me/", headers={"authorization": f"Bearer {stack.api_key}"})).status_code == 200
    basic = await anonymous.get("/me/", headers={"authorization": f"Basic {stack.api_key}"})
    check_error(basic, 401, "authentication_error")
    check_error(await anonymous.get("/me/", params={"x-api-key": stack.api_key}), 401, "authentication_error")


async def test_a_key_from_its_creation_to_its_revocation(api: Api, anonymous: httpx.AsyncClient) -> None:
    key = await make_key(api, scopes=["agents:read"])
    assert key["secret"].startswith(key["prefix"])
    listed = (await api.http.get("/api-keys/", params={"limit": 200})).text
    assert key["id"] in listed
    assert key["secret"] not in listed
    used = {"x-api-key": key["secret"]}
    assert (await anonymous.get("/me/", headers=used)).json()["scopes"] == ["agents:read"]
    assert (await api.http.delete(f"/api-keys/{key['id']}/")).status_code == 204
    reply = await until(lambda: refused(anonymous, key["secret"]))
    error = check_error(reply, 401, "authentication_error")
    assert "revoked" in error["message"]
    assert (await api.http.delete(f"/api-keys/{key['id']}/")).status_code == 204


async def test_a_key_revoked_by_an_operator_stops_within_seconds(
    stack: RunningStack, api: Api, anonymous: httpx.AsyncClient
) -> None:
    key = await make_key(api)
    # It is in use, so the gateway remembers it.
    assert (await anonymous.get("/me/", headers={"x-api-key": key["secret"]})).status_code == 200
    stack.aes("keys", "revoke", key["id"])
    # Without the event it would be remembered for 30 s.
    await until(lambda: refused(anonymous, key["secret"]), within=25)


async def test_revocation_ends_open_streams(stack: RunningStack, api: Api, model: HeldModel) -> None:
    key = await make_key(api)
    session = await api.session("openai:stub-hold")
    async with new_client(stack.base_url, key["secret"]) as client:
        with model.held():
            names = []
            async for event in Api(client).events(session, "hello"):
                names.append(event.name)
                if event.name == "turn.started":
                    assert (await api.http.delete(f"/api-keys/{key['id']}/")).status_code == 204
    assert "turn.completed" not in names
    # The turn itself goes on.
    await until(lambda: _answered(api, session))


async def _answered(api: Api, session: str) -> bool:
    return len(await api.messages(session)) == 2

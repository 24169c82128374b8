"""API keys and public keys: who is let in, from where, for how long and for what."""

from typing import Any

import httpx

from tests.e2e.api import Api, check_error, configuration, new_client, unique
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


PAGE = f"https://{unique('shop')}.example"
ELSEWHERE = "https://elsewhere.example"


async def test_a_conversation_with_a_public_agent(api: Api, anonymous: httpx.AsyncClient) -> None:
    body = configuration(name=unique("Open"), system_prompt="none of your business")
    agent = (await api.http.post("/agent/", json={**body, "is_public": True, "allowed_origins": [PAGE]})).json()
    public = {"params": {"agent_key": agent["agent_key"]}, "headers": {"origin": PAGE}}
    asked = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    allowed = await anonymous.options("/sessions/", params=public["params"], headers=asked)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (204, PAGE)

    opened = await anonymous.post("/sessions/", json={}, **public)
    assert (opened.status_code, opened.headers["access-control-allow-origin"]) == (201, PAGE)
    session = opened.json()["session_id"]
    answer = await anonymous.post(f"/runtime/{session}/execute/", json={"content": "hello"}, **public)
    assert (answer.status_code, answer.json()["success"]) == (200, True)
    history = (await anonymous.get(f"/runtime/{session}/messages/", **public)).json()
    assert history["total"] == 2
    stream = f"/runtime/{session}/turns/{answer.json()['turn_id']}/events/"
    followed = await anonymous.get(stream, **public)
    assert followed.headers["access-control-allow-origin"] == PAGE
    assert "event: turn.completed\n" in followed.text
    shown = await anonymous.get(f"/sessions/{session}/", **public)
    assert shown.json()["agent_id"] == agent["id"]
    assert "none of your business" not in shown.text

    files = {"file": ("note.txt", b"from a page")}
    uploaded = await anonymous.post(f"/sessions/{session}/artifacts/", files=files, **public)
    assert (uploaded.status_code, uploaded.headers["access-control-allow-origin"]) == (201, PAGE)
    place = f"/sessions/{session}/artifacts/{uploaded.json()['artifact_id']}"
    assert (await anonymous.get(f"{place}/download/", **public)).content == b"from a page"
    assert (await api.http.get(f"{place}/download/")).content == b"from a page"
    check_error(await anonymous.post(f"{place}/copy-to-platform/", **public), 403, "permission_error")

    own = await api.session()
    check_error(await anonymous.get(f"/runtime/{own}/messages/", **public), 404, "not_found_error")
    own_turn = (await api.execute(own, "hello")).json()["turn_id"]
    check_error(await anonymous.get(f"/runtime/{own}/turns/{own_turn}/events/", **public), 404, "not_found_error")
    check_error(await anonymous.get(f"/sessions/{own}/artifacts/", **public), 404, "not_found_error")
    check_error(await anonymous.post(f"/sessions/{own}/artifacts/", files=files, **public), 404, "not_found_error")
    check_error(await anonymous.get("/sessions/", **public), 403, "permission_error")
    check_error(await anonymous.delete(f"/sessions/{session}/", **public), 403, "permission_error")
    strange = {**public, "headers": {"origin": ELSEWHERE}}
    check_error(await anonymous.post("/sessions/", json={}, **strange), 403, "permission_error")

    assert (await api.http.patch(f"/agent/{agent['id']}/", json={"is_public": False})).status_code == 200

    async def closed() -> httpx.Response | None:
        reply = await anonymous.post("/sessions/", json={}, **public)
        return reply if reply.status_code == 401 else None

    check_error(await until(closed), 401, "authentication_error")

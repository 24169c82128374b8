"""Public principals talk to an agent with a public key, as their browsers do."""

import httpx

from tests.e2e.api import Api, check_error, configuration, unique
from tests.support.waiting import until

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


async def test_a_connection_to_a_private_agent(api: Api, as_mallory: Api, anonymous: httpx.AsyncClient) -> None:
    agent = (await api.http.post("/agent/", json=configuration())).json()
    wanted = {"agent_id": agent["id"], "allowed_origins": [PAGE], "scopes": ["sessions:write", "sessions:read"]}
    check_error(await as_mallory.http.post("/connections/", json=wanted), 404, "not_found_error")
    made = await api.http.post("/connections/", json=wanted)
    assert made.status_code == 201, made.text
    connection = made.json()
    public = {"params": {"connection_key": connection["connection_key"]}, "headers": {"origin": PAGE}}
    session = (await anonymous.post("/sessions/", json={}, **public)).json()["session_id"]
    answer = await anonymous.post(f"/runtime/{session}/execute/", json={"content": "hello"}, **public)
    check_error(answer, 403, "permission_error")
    check_error(await as_mallory.http.get(f"/connections/{connection['id']}/"), 404, "not_found_error")
    assert (await api.http.delete(f"/connections/{connection['id']}/")).status_code == 204

    async def gone() -> httpx.Response | None:
        reply = await anonymous.get(f"/sessions/{session}/", **public)
        return reply if reply.status_code == 401 else None

    check_error(await until(gone), 401, "authentication_error")
    assert (await api.http.get(f"/sessions/{session}/")).status_code == 200, "sessions stay the company's"


async def test_a_token_may_what_its_key_may_until_that_is_revoked(api: Api, anonymous: httpx.AsyncClient) -> None:
    key = (await api.http.post("/api-keys/", json={"scopes": ["sessions:read", "artifacts:read"]})).json()
    made = await anonymous.post("/auth/token/", json={"expires_in": 600}, headers={"x-api-key": key["secret"]})
    assert (made.status_code, made.json()["expires_in"]) == (200, 600)
    bearer = {"authorization": f"Bearer {made.json()['access_token']}"}
    session = await api.session()
    place = f"/sessions/{session}/artifacts/"
    assert (await anonymous.get(place, headers=bearer)).json()["total"] == 0
    files = {"file": ("note.txt", b"text")}
    check_error(await anonymous.post(place, files=files, headers=bearer), 403, "permission_error")
    assert (await anonymous.get("/sessions/", headers=bearer)).status_code == 200
    check_error(await anonymous.get("/agent/", headers=bearer), 403, "permission_error")
    forged = {"authorization": bearer["authorization"][:-4] + "AAAA"}
    check_error(await anonymous.get(place, headers=forged), 401, "authentication_error")
    assert (await api.http.delete(f"/api-keys/{key['id']}/")).status_code == 204

    async def ended() -> httpx.Response | None:
        reply = await anonymous.get(place, headers=bearer)
        return reply if reply.status_code == 401 else None

    check_error(await until(ended), 401, "authentication_error")

"""Resources of another company, or private to another user, look like missing ones."""

from typing import Any

import pytest

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.held_model import HeldModel
from tests.support.waiting import until

UNKNOWN_ID = "01900000-0000-7000-8000-000000000000"
MALFORMED = (
    "x",
    "1",
    "None",
    UNKNOWN_ID.replace("-", ""),
    f"{{{UNKNOWN_ID}}}",
    f"{UNKNOWN_ID}%20",
    "%00",
    "%2e%2e",
    "..%2f..%2fetc",
    "%ff%fe",
    "'%20OR%201=1",
    "a" * 3000,
    "%F0%9F%A6%8A",
)
SESSION = (
    ("GET", "/sessions/{}/", None),
    ("DELETE", "/sessions/{}/", None),
    ("POST", "/runtime/{}/execute/", {"content": "hi"}),
    ("GET", "/runtime/{}/messages/", None),
    ("GET", "/sessions/{}/artifacts/", None),
    ("GET", "/sessions/{}/artifacts/download-all/", None),
)
AGENT = (
    ("GET", "/agent/{}/", None),
    ("PATCH", "/agent/{}/", {"name": "mine"}),
    ("DELETE", "/agent/{}/", None),
    ("GET", "/agent/{}/versions/", None),
    ("GET", "/agent/{}/versions/1.0.0/", None),
)
ARTIFACT = (("GET", "/artifacts/{}/", None), ("GET", f"/sessions/{UNKNOWN_ID}/artifacts/{{}}/download/", None))
KEY = (("DELETE", "/api-keys/{}/", None), ("POST", "/api-keys/{}/rotate/", {}))
Endpoint = tuple[str, str, Any]


@pytest.mark.parametrize("endpoint", [*SESSION, *AGENT, *ARTIFACT, *KEY], ids=lambda endpoint: " ".join(endpoint[:2]))
async def test_unknown_and_malformed_ids(api: Api, endpoint: Endpoint) -> None:
    method, path, body = endpoint
    for unknown in (UNKNOWN_ID, UNKNOWN_ID.upper(), *MALFORMED):
        check_error(await api.http.request(method, path.format(unknown), json=body), 404, "not_found_error")


async def test_unknown_turns(api: Api) -> None:
    session = await api.session()
    other = await api.session()
    elsewhere = (await api.execute(other, "hello")).json()["turn_id"]
    for turn in (UNKNOWN_ID, *MALFORMED, elsewhere):
        check_error(await api.http.get(f"/runtime/{session}/turns/{turn}/"), 404, "not_found_error")
        check_error(await api.http.post(f"/runtime/{session}/turns/{turn}/cancel/"), 404, "not_found_error")


@pytest.mark.parametrize("who", ["another company's", "a colleague's"])
async def test_a_session_of_somebody_else(
    as_alice: Api, as_bob: Api, as_mallory: Api, model: HeldModel, who: str
) -> None:
    other = as_bob if who == "a colleague's" else as_mallory
    session = await as_alice.session("openai:stub-hold-echo")
    text, label = unique("private"), unique("label")
    with model.held():
        turn = (await as_alice.in_background(session, text, x_correlation_id=label))["turn_id"]
        await until(lambda: _running(as_alice, session, turn))
        endpoints: list[Endpoint] = [
            *((method, path.format(session), body) for method, path, body in SESSION),
            ("GET", f"/runtime/{session}/turns/{turn}/", None),
            ("POST", f"/runtime/{session}/turns/{turn}/cancel/", None),
        ]
        for method, path, body in endpoints:
            # Knowing the correlation id gives no right either.
            reply = await other.http.request(method, path, json=body, headers={"x-correlation-id": label})
            check_error(reply, 404, "not_found_error")
            assert text not in reply.text
        for headers in ({"accept": "text/event-stream"}, {"prefer": "respond-async"}):
            check_error(await other.execute(session, "hi", **headers), 404, "not_found_error")
    assert session not in (await other.http.get("/sessions/", params={"limit": 200})).text
    assert (await as_alice.turn_ended(session, turn))["status"] == "completed"
    assert [message["content"] for message in await as_alice.messages(session)] == [text, f"You said: {text}"]


async def _running(api: Api, session: str, turn: str) -> bool:
    return bool((await api.turn(session, turn))["status"] == "running")


async def test_an_agent_of_another_company(as_alice: Api, as_mallory: Api) -> None:
    agent = (await as_alice.http.post("/agent/", json={**configuration(), "is_shared": True})).json()
    for method, path, body in AGENT:
        reply = await as_mallory.http.request(method, path.format(agent["id"]), json=body)
        check_error(reply, 404, "not_found_error")
    for reference in ({"agent_id": agent["id"]}, {"agent_key": agent["agent_key"]}):
        check_error(await as_mallory.http.post("/sessions/", json=reference), 404, "not_found_error")
    assert (await as_alice.http.get(f"/agent/{agent['id']}/")).json() == agent


async def test_an_idempotency_key_of_another_company(as_alice: Api, as_mallory: Api) -> None:
    key = {"idempotency-key": unique("key"), "x-correlation-id": unique("label")}
    hers = await as_alice.http.post("/sessions/", json=configuration(), headers=key)
    theirs = await as_mallory.http.post("/sessions/", json=configuration(), headers=key)
    assert (hers.status_code, theirs.status_code) == (201, 201)
    assert hers.json()["session_id"] != theirs.json()["session_id"]

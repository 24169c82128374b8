"""The internal HTTP API: what callers may read, and in which shape."""

from collections.abc import AsyncIterator
from datetime import datetime
from time import time
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.sessions import CreateSession
from libs.service_defaults import Service
from services.runtime.bootstrap import build
from services.runtime.settings import RuntimeSettings
from tests.support.agent_fakes import answering, calling
from tests.support.runtime_nodes import SIGNING_KEY, Node, ObedientModel, person

AGENT = {"name": "Tester", "agent_type": "llm_agent", "llm_config": {"model": "test:model"}}


class Api:
    def __init__(self, service: Service, http: httpx.AsyncClient) -> None:
        self._service = service
        self._http = http

    async def get(self, path: str, caller: Identity | None = None, status: int = 200, **params: Any) -> Any:
        token = self._service.signer.sign(caller or person(), expires_at=time() + 60)
        response = await self._http.get(path, params=params, headers={"Authorization": f"Bearer {token}"})
        assert response.status_code == status, response.text
        return response.json() if response.content else None


@pytest.fixture
async def api(node: Node, database_url: str) -> AsyncIterator[Api]:
    settings = RuntimeSettings(signing_key=SecretStr(SIGNING_KEY), database_url=SecretStr(database_url))
    service = build(settings)
    await service.database.open()
    transport = httpx.ASGITransport(app=service.http, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://runtime") as http:
        yield Api(service, http)
    for hook in service.lifecycle._on_stop:
        await hook()
    await service.database.close()


async def test_a_session_is_shown_as_it_was_created(node: Node, api: Api) -> None:
    session = await node.create_session(system_prompt="Be brief.", tools=["calculator"])
    shown = await api.get(f"/internal/sessions/{session}")
    assert shown["owner_id"] == "alice"
    assert (shown["session_id"], shown["status"], shown["config_hash"]) == (session, "active", "hash")
    assert shown["agent_config"]["system_prompt"] == "Be brief."
    assert list(shown["agent_config"])[:2] == ["name", "agent_type"], "as it was given, in its order"
    assert len(shown["created_at"]) == len("2026-01-01T00:00:00.000000Z")
    datetime.fromisoformat(shown["created_at"])


async def test_messages_are_listed_oldest_first_in_pages(node: Node, api: Api) -> None:
    session = await node.create_session()
    for text in ("a", "b"):
        await node.ended(await node.execute(session, text))
    page = await api.get(f"/internal/sessions/{session}/messages")
    assert [message["content"] for message in page["messages"]] == ["a", "re: a", "b", "re: b"]
    assert page["messages"][0].keys() == {"id", "role", "content", "timestamp", "content_blocks", "turn_id"}
    assert page["messages"][0]["content_blocks"] == [{"type": "text", "text": "a"}]
    assert (page["total"], page["has_more"]) == (4, False)
    page = await api.get(f"/internal/sessions/{session}/messages", limit=1, offset=2)
    assert ([message["content"] for message in page["messages"]], page["has_more"]) == (["b"], True)


async def test_a_turn_shows_its_state_its_reply_and_its_error(node: Node, api: Api, model: ObedientModel) -> None:
    session = await node.create_session(agent_type="react_agent", tools=["echo"])
    model.scripts["work"] = [calling(("echo", {"text": "x"})), answering("done")]
    turn_id = await node.execute(session, "work")
    await node.ended(turn_id)
    path = f"/internal/sessions/{session}/turns/{turn_id}"
    turn = await api.get(path)
    assert (turn["status"], turn["attempt"], turn["error"]) == ("completed", 1, None)
    assert turn["reply"] == (await node.outcome(turn_id))[1]
    assert turn["reply"]["response"]["tool_calls"][0]["output"] == "x"
    assert turn["created_at"] <= turn["started_at"] <= turn["finished_at"]
    model.scripts["boom"] = [KeyError("bug")] * 3
    failed = await node.execute(session, "boom")
    await node.ended(failed)
    turn = await api.get(f"/internal/sessions/{session}/turns/{failed}")
    assert (turn["status"], turn["reply"], turn["error"]["type"]) == ("failed", None, "internal_error")
    other = await node.create_session()
    await api.get(f"/internal/sessions/{other}/turns/{turn_id}", status=404)


async def test_the_catalogues_name_models_and_tools(api: Api) -> None:
    models = await api.get("/internal/models")
    assert "builtin:extractive" in [model["name"] for model in models["models"]]
    assert {"provider", "configured", "any_name", "models"} <= models["providers"][0].keys()
    tools = await api.get("/internal/tools")
    assert {"calculator", "current_time", "http_get"} <= {tool["name"] for tool in tools["tools"]}
    assert (tools["total"], tools["has_more"]) == (len(tools["tools"]), False)


async def test_turns_with_an_agent_are_listed_those_that_changed_last_first(node: Node, api: Api) -> None:
    sessions = {new_id(): agent_id for agent_id in ("one", "one", "other")}
    for session_id, agent_id in sessions.items():
        await node.deliver(
            CreateSession(session_id=session_id, agent_config=AGENT, config_hash="hash", agent_id=agent_id)
        )
    one, _, other = sessions
    turns = [(await node.ended(await node.execute(session_id, "hello")))[0]["id"] for session_id in (*sessions, one)]
    first, second, _, last = turns

    async def listed(caller: Identity | None = None, **wanted: Any) -> tuple[list[str], int, bool]:
        page = await api.get("/internal/turns", caller, agent_id="one", **wanted)
        return [turn["turn_id"] for turn in page["turns"]], page["total"], page["has_more"]

    assert await listed() == ([last, second, first], 3, False)
    cursor: dict[str, Any] = {}
    for turn_id in (last, second, first):
        page = await api.get("/internal/turns", agent_id="one", limit=1, **cursor)
        assert [turn["turn_id"] for turn in page["turns"]] == [turn_id]
        assert (page["total"], page["has_more"]) == (3, turn_id != first)
        cursor = {"after": page["next"]}
    assert await listed(session_id=one) == ([last, first], 2, False)
    assert await listed(session_id=other) == ([], 0, False)
    finished = (await api.get(f"/internal/turns/{second}"))["finished_at"]
    assert await listed(changed_after=finished) == ([last], 1, False)
    assert await listed(person("bob")) == ([], 0, False)
    assert await listed(person(company="company-2")) == ([], 0, False)
    await api.get("/internal/turns", status=422)
    await api.get("/internal/turns", agent_id="one", after="nowhere", status=422)
    for stranger in (person("bob"), person(company="company-2")):
        await api.get(f"/internal/turns/{second}", stranger, status=404)
    for nothing in (new_id(), "no id"):
        await api.get(f"/internal/turns/{nothing}", status=404)


async def test_a_look_up_returns_the_state_of_a_turn(node: Node, api: Api, model: ObedientModel) -> None:
    session = await node.create_session()
    model.shut("slow")
    turn_id = await node.execute(session, "slow")
    await api.get(f"/internal/commands/{turn_id}", status=202)
    await api.get(f"/internal/commands/{turn_id}", person(company="company-2"), status=404)
    await api.get(f"/internal/commands/{new_id()}", status=404)
    refused = await node.execute(new_id(), "hello")
    assert await node.router.knows(refused, "company-1")
    assert not await node.router.knows(refused, "company-2")

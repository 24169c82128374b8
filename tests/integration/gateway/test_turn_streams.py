"""Streams of turns on two replicas of the gateway, before a real runtime, on the real broker and databases."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
import pytest

from tests.integration.gateway.conftest import IN_ONE_LOOP, Installation, execute
from tests.servers.model_stub import TEXT
from tests.support.waiting import until

pytestmark = IN_ONE_LOOP


@dataclass
class Reader:
    """Keeps what a stream says, text by its place, and checks that it goes on where it was."""

    session: str
    turn_id: str = ""
    last_id: str = ""
    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    texts: defaultdict[tuple[int, int], str] = field(default_factory=lambda: defaultdict(str))
    end: dict[str, Any] = field(default_factory=dict)

    async def execute(self, client: httpx.AsyncClient, events: int) -> None:
        """Executes a message and leaves after that many events."""
        path, headers = f"/runtime/{self.session}/execute/", {"Accept": "text/event-stream"}
        async with client.stream("POST", path, json={"content": "hello"}, headers=headers) as response:
            assert response.headers["location"].startswith(f"/api/v1/runtime/{self.session}/turns/")
            await self._read(response, events)

    async def follow(self, client: httpx.AsyncClient, events: int = 1_000_000) -> None:
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        async with client.stream("GET", self.path, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            await self._read(response, events)

    @property
    def path(self) -> str:
        return f"/runtime/{self.session}/turns/{self.turn_id}/events/"

    async def _read(self, response: httpx.Response, events: int) -> None:
        seen: dict[str, str] = {}
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            seen[name] = value
            if line or "event" not in seen:
                continue
            self._take(seen["id"], seen["event"], orjson.loads(seen["data"]))
            seen, events = {}, events - 1
            if not events:
                return

    def _take(self, event_id: str, name: str, data: dict[str, Any]) -> None:
        assert event_id not in self.ids
        self.ids.append(event_id)
        self.last_id, self.turn_id = event_id, data["turn_id"]
        if name == "turn.output_text.delta":
            place = data["attempt"], data["step"]
            assert data["offset"] == len(self.texts[place])
            self.texts[place] += data["text"]
        elif name != "turn.output_text.done":
            self.names.append(name)
            self.end = data

    def check(self, *names: str) -> None:
        assert self.names == ["turn.started", *names, "turn.completed"]
        assert self.texts[max(self.texts)] == self.end["response"]["content"] == TEXT


TOOL = ("turn.tool_call.started", "turn.tool_call.completed")


@pytest.mark.failover("a client's stream, by another replica")
async def test_a_stream_goes_on_at_the_other_replica_after_every_few_events(installation: Installation) -> None:
    reader = Reader(await installation.session("openai:stub-tool-slow-2000", tools=["calculator"]))
    await reader.execute(installation.clients[0], 1)
    turns = 0
    while reader.names[-1] != "turn.completed":
        turns += 1
        await reader.follow(installation.clients[turns % 2], 3)
    reader.check(*TOOL)
    # Whoever is late gets more text at once.
    assert turns > 1
    ended = await installation.clients[0].get(reader.path, headers={"Last-Event-ID": reader.last_id})
    assert ended.status_code == 204


async def test_an_old_turn_is_replayed_from_the_log_and_an_older_one_from_its_row(installation: Installation) -> None:
    session = await installation.session("openai:stub-tool", tools=["calculator"])
    first = Reader(session)
    await first.execute(installation.clients[0], 1_000_000)
    first.check(*TOOL)

    async def logged() -> bool:
        statement = "SELECT count(*) FROM timeline_events WHERE subject = %s"
        return (await execute(installation.timeline_database, statement, first.turn_id))[0][0] == 4

    await until(logged)
    await execute(installation.runtime_database, "DELETE FROM outbox WHERE subject = %s", first.turn_id)
    from_log = Reader(session, first.turn_id)
    await from_log.follow(installation.clients[1])
    from_log.check(*TOOL)
    assert [event_id for event_id in from_log.ids if event_id in first.ids] == from_log.ids, "a step's text comes whole"
    await execute(installation.timeline_database, "DELETE FROM timeline_events WHERE subject = %s", first.turn_id)
    from_row = Reader(session, first.turn_id)
    await from_row.follow(installation.clients[0])
    assert from_row.names == ["turn.completed"]
    assert from_row.end == first.end
    assert list(from_row.texts.values()) == [TEXT]


APPROVED: dict[str, Any] = {"tools": ["calculator"], "tool_policies": {"calculator": {"approval": "always"}}}
MODEL = "openai:stub-tool"


async def test_a_stream_goes_on_elsewhere_in_the_middle_of_a_wait(installation: Installation) -> None:
    first, second = installation.clients
    session = await installation.session(MODEL, **APPROVED)
    reader, late = Reader(session), Reader(session)
    await reader.execute(first, 3)
    assert reader.names == ["turn.started", "turn.tool_call.started", "turn.action_required"]
    late.turn_id = reader.turn_id
    going_on = [asyncio.create_task(reader.follow(second)), asyncio.create_task(late.follow(first))]
    [action] = (await second.get("/actions/", params={"session_id": session})).json()["actions"]
    place = f"/runtime/{session}/turns/{reader.turn_id}/actions/{action['action_id']}/"
    assert (await first.post(place, json={"decision": "deny", "reason": "not today"})).status_code == 200
    await asyncio.gather(*going_on)
    assert reader.names == late.names == [
        "turn.started", "turn.tool_call.started", "turn.action_required", "turn.action_resolved",
        "turn.tool_call.failed", "turn.completed",
    ]  # fmt: skip
    assert reader.texts[max(reader.texts)] == reader.end["response"]["content"]
    assert "not today" in reader.end["response"]["tool_calls"][0]["output"]

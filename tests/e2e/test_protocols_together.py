"""One turn, followed through all protocols at once while processes are killed: the same story everywhere."""

import asyncio
import math
from contextlib import suppress
from typing import Any

import httpx
import openai
import orjson
import pytest
from a2a.client.errors import A2AClientError, AgentCardResolutionError
from a2a.types.a2a_pb2 import GetTaskRequest, SubscribeToTaskRequest, Task
from a2a.utils.errors import UnsupportedOperationError
from ag_ui.core import EventType
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from tests.e2e.api import Api, unique
from tests.e2e.event_log import EventLog
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.e2e.test_a2a import client_of, joined, reply_of
from tests.e2e.test_ag_ui import Agent, run_of, session_of, user
from tests.e2e.test_openai_responses import client_of as openai_client
from tests.e2e.turn_reader import Reader
from tests.support.waiting import WITHIN, until

Story = list[tuple[str, str, Any]]
"""Calls with their arguments, and their results."""


_LOST = (OSError, ConnectionClosed, InvalidMessage, InvalidStatus, TimeoutError)


class SessionReader:
    """Follows a session over a WebSocket; connects again as often as it takes, after the last message."""

    def __init__(self, stack: RunningStack, session: str) -> None:
        self.url = f"{stack.base_url.replace('http', 'ws', 1)}/api/v1/ws/sessions/{session}/"
        self.key = stack.api_key
        self.messages: list[dict[str, Any]] = []
        self.lost = 0

    async def run(self) -> None:
        """Never ends by itself."""
        await until(self._read_on, within=math.inf, pause=0.3)

    async def _read_on(self) -> bool:
        with suppress(*_LOST):
            async with connect(self.url, additional_headers={"x-api-key": self.key}, proxy=None) as socket:
                after = {"after": self.messages[-1]["id"]} if self.messages else {}
                await socket.send(orjson.dumps({"type": "subscribe", **after}).decode())
                async for text in socket:
                    self.messages.append(orjson.loads(text))
        self.lost += 1
        return False

    def text_of(self, turn: str) -> str:
        """The text of the turn's last step, as a client puts it together; its pieces have to fit."""
        texts: dict[tuple[int, int], str] = {}
        for message in self.messages:
            data = message["data"]
            if message["type"] == "turn.output_text.delta" and data["turn_id"] == turn:
                place = (data["attempt"], data["step"])
                assert data["offset"] == len(texts.get(place, "")), data
                texts[place] = texts.get(place, "") + data["text"]
        return texts[max(texts)]


class RunReader:
    """An AG-UI client that repeats its run, with what it has of it, until it has ended."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.run = run_of(unique(), user(unique("together")))
        self.messages: list[dict[str, Any]] = list(self.run["messages"])
        self.place: tuple[str, str] | None = None
        self.breaks = 0
        self.has_ended = False

    async def follow(self) -> None:
        async with asyncio.timeout(WITHIN):
            await until(self._read_on, "the end of the run", pause=0.3)

    async def _read_on(self) -> bool:
        try:
            async for event in self.agent.events({**self.run, "messages": self.messages}):
                self._take(event)
        except (httpx.TransportError, AssertionError) as problem:
            if isinstance(problem, AssertionError) and "service_unavailable" not in str(problem):
                raise
        self.breaks += not self.has_ended
        return self.has_ended

    def _take(self, event: Any) -> None:
        """By the rules of the protocol's own client."""
        match event.type:
            case EventType.STATE_SNAPSHOT:
                self.place = session_of([event])
            case EventType.TEXT_MESSAGE_START:
                self._message(event.message_id).setdefault("content", "")
            case EventType.TEXT_MESSAGE_CONTENT:
                self._message(event.message_id)["content"] += event.delta
            case EventType.TOOL_CALL_START:
                call = {"name": event.tool_call_name, "arguments": ""}
                holder = self._message(event.parent_message_id)
                calls = holder.setdefault("toolCalls", [])
                calls.append({"id": event.tool_call_id, "type": "function", "function": call})
            case EventType.TOOL_CALL_ARGS:
                for call in self._calls():
                    if call["id"] == event.tool_call_id:
                        call["function"]["arguments"] += event.delta
            case EventType.TOOL_CALL_RESULT:
                self.messages.append(
                    {
                        "id": event.message_id,
                        "role": "tool",
                        "toolCallId": event.tool_call_id,
                        "content": event.content,
                    }
                )
            case EventType.MESSAGES_SNAPSHOT:
                self.messages = [each.model_dump(mode="json", by_alias=True) for each in event.messages]
            case EventType.RUN_FINISHED:
                self.has_ended = True

    def _message(self, message_id: str) -> dict[str, Any]:
        found = next((each for each in self.messages if each["id"] == message_id), None)
        if found is None:
            found = {"id": message_id, "role": "assistant"}
            self.messages.append(found)
        return found

    def _calls(self) -> list[dict[str, Any]]:
        return [call for each in self.messages for call in each.get("toolCalls") or ()]

    @property
    def text(self) -> str:
        return str(self.messages[-1].get("content") or "") if self.messages[-1]["role"] == "assistant" else ""

    @property
    def story(self) -> Story:
        names = {call["id"]: call["function"]["name"] for call in self._calls()}
        told: Story = []
        for each in self.messages:
            told += [("call", call["function"]["name"], call["id"]) for call in each.get("toolCalls") or ()]
            if each["role"] == "tool":
                told.append(("result", names[each["toolCallId"]], each["content"]))
        return told


class TaskReader:
    """An A2A client that subscribes again until its task has ended."""

    def __init__(self, stack: RunningStack, agent: str, turn_id: str) -> None:
        self.stack, self.agent, self.turn_id = stack, agent, turn_id
        self.task = Task()
        self.told: list[dict[str, Any]] = []
        self.begun = asyncio.Event()
        self.breaks = 0

    async def follow(self) -> None:
        async with asyncio.timeout(WITHIN):
            await until(self._read_on, "the end of the task", pause=0.3)

    async def _read_on(self) -> bool:
        try:
            await self._subscribe()
        except (A2AClientError, AgentCardResolutionError):
            self.breaks += 1
        return bool(self.told) and self.told[-1].get("state") == "ended"

    async def _subscribe(self) -> None:
        async with client_of(self.stack, self.stack.api_key, self.agent) as client:
            try:
                self.task, told = await joined(client.subscribe(SubscribeToTaskRequest(id=self.turn_id)), self.begun)
            except UnsupportedOperationError:
                # It has ended meanwhile.
                self.task, told = await client.get_task(GetTaskRequest(id=self.turn_id)), self.told
            self.told = [*told, {"state": "ended"}]

    @property
    def story(self) -> Story:
        told: Story = []
        for each in self.told:
            if "tool_call" in each:
                told.append(("call", each["tool_call"]["name"], each["tool_call"]["id"]))
            elif "tool_result" in each:
                told.append(("result", each["tool_result"]["name"], each["tool_result"]["output"]))
        return told


class ResponseReader:
    """A client of OpenAI that goes on after the last number that it has."""

    def __init__(self, stack: RunningStack, turn_id: str) -> None:
        self.client = openai_client(stack, stack.api_key)
        self.response_id = f"resp_{turn_id}"
        self.events: list[dict[str, Any]] = []
        self.breaks = 0

    async def follow(self) -> None:
        async with asyncio.timeout(WITHIN), self.client:
            await until(self._read_on, "the end of the response", pause=0.3)

    async def _read_on(self) -> bool:
        after = {"starting_after": self.events[-1]["sequence_number"]} if self.events else {}
        with suppress(openai.APIError, httpx.TransportError):
            stream = await self.client.responses.retrieve(self.response_id, stream=True, **after)
            async for event in stream:
                self.events.append(event.to_dict())
        has_ended = bool(self.events) and self.events[-1]["type"] == "response.completed"
        self.breaks += not has_ended
        return has_ended

    @property
    def text(self) -> str:
        """The last message among the items that were completed."""
        items = [each["item"] for each in self.events if each["type"] == "response.output_item.done"]
        whole = [item for item in items if item["type"] == "message" and item["status"] == "completed"]
        deltas = [each for each in self.events if each["type"] == "response.output_text.delta"]
        return "".join(each["delta"] for each in deltas if each["item_id"] == whole[-1]["id"])

    @property
    def story(self) -> list[tuple[str, str, str]]:
        """Calls with their results: the protocol has one item for both."""
        items = [each["item"] for each in self.events if each["type"] == "response.output_item.done"]
        return [("result", item["name"], item["output"]) for item in items if item["type"] == "mcp_call"]


def story_of(events: list[tuple[str, dict[str, Any]]]) -> Story:
    """From our own events."""
    told: Story = []
    for name, data in events:
        if name == "turn.tool_call.started":
            told.append(("call", data["name"], data["call_id"]))
        elif name == "turn.tool_call.completed":
            told.append(("result", data["name"], data["output"]))
    return told


@pytest.mark.crash("runtime")
@pytest.mark.slow
async def test_one_turn_looks_the_same_through_every_protocol(
    breakable: RunningStack, api: Api, model: HeldModel, event_log: EventLog
) -> None:
    stack = breakable
    agent = await api.agent("openai:stub-tool-halt-slow-4000", tools=["calculator"])
    run = RunReader(Agent(api.http, f"{stack.base_url}/ag-ui/{agent}"))
    with model.held():
        running = [asyncio.create_task(run.follow())]
        session, turn_id = await until(lambda: run.place)
        stream = Reader(api, session, turn_id)
        task = TaskReader(stack, agent, turn_id)
        socket, response = SessionReader(stack, session), ResponseReader(stack, turn_id)
        running += [asyncio.create_task(each.follow()) for each in (stream, task, response)]
        listening = asyncio.create_task(socket.run())
        await until(lambda: run.text and stream.texts and task.begun.is_set() and response.events and socket.messages)
        killed = {part: stack.kill(part) for part in ("runtime", "gateway")}
    try:
        await asyncio.gather(*running)
        await until(lambda: any(message["type"] == "turn.completed" for message in socket.messages))
    finally:
        listening.cancel()
    assert min(run.breaks, stream.breaks, task.breaks, socket.lost, response.breaks) > 0
    numbers = [each["sequence_number"] for each in response.events]
    assert numbers == sorted(set(numbers))
    for part, pid in killed.items():
        await asyncio.to_thread(stack.wait_replaced, part, pid)

    turn = await api.turn(session, turn_id)
    reply = turn["reply"]["response"]["content"]
    bus = [each for each in await event_log.ended([turn["correlation_id"]]) if each.subject == turn_id]
    assert stream.check()["response"]["content"] == reply
    assert run.messages[-1]["content"] == reply
    assert reply_of(task.task) == reply
    assert socket.text_of(turn_id) == response.text == reply
    assert [each.payload["response"]["content"] for each in bus if each.name == "turn.completed"] == [reply]

    story = story_of([(each.name, each.payload) for each in bus])
    assert [(kind, name) for kind, name, _ in story] == [("call", "calculator"), ("result", "calculator")]
    assert story_of([(event.name, event.data) for event in stream.events]) == story
    assert story_of([(message["type"], message["data"]) for message in socket.messages]) == story
    assert run.story == task.story == story
    assert response.story == [each for each in story if each[0] == "result"]
    assert len(await api.messages(session)) == 2

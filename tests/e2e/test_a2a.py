"""Agents as A2A servers, used by the protocol's own client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import AgentCardResolutionError
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.e2e.api import Api, configuration, unique
from tests.e2e.conftest import Caller
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.e2e.test_waits import BOTH, GUARDED, by_kind
from tests.support.waiting import until


@asynccontextmanager
async def client_of(
    stack: RunningStack, secret: str, agent: str, *, binding: str = "JSONRPC", streaming: bool = True
) -> AsyncIterator[Client]:
    """The official client, from the agent's card."""
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(headers=headers, timeout=120, trust_env=False) as http:
        card = await A2ACardResolver(http, f"{stack.base_url}/a2a/{agent}").get_agent_card()
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(card)


def asked(
    text: str, *, context: str = "", task: str = "", parts: list[Part] | None = None, **how: Any
) -> SendMessageRequest:
    message = Message(
        message_id=unique(), role=Role.ROLE_USER, parts=parts or [Part(text=text)], context_id=context, task_id=task
    )
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(**how))


def data(**values: Any) -> Part:
    return ParseDict({"data": values}, Part())


async def joined(
    updates: AsyncIterator[StreamResponse], begun: asyncio.Event | None = None
) -> tuple[Task, list[dict[str, Any]]]:
    """The task as the protocol's library puts it together, and the data of what was told on the way."""
    task, told = Task(), list[dict[str, Any]]()
    async for update in updates:
        if begun is not None:
            begun.set()
        if update.HasField("task"):
            task.CopyFrom(update.task)
        elif update.HasField("artifact_update"):
            append_artifact_to_task(task, update.artifact_update)
        else:
            task.status.CopyFrom(update.status_update.status)
            message = MessageToDict(update.status_update.status.message)
            told += [part["data"] for part in message.get("parts", []) if "data" in part]
    return task, told


def reply_of(task: Task) -> str:
    return "".join(
        part.text for artifact in task.artifacts if artifact.artifact_id == "reply" for part in artifact.parts
    )


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_official_client_has_a_conversation(stack: RunningStack, api: Api, binding: str) -> None:
    agent = await api.agent()
    async with client_of(stack, stack.api_key, agent, binding=binding) as client:
        request = asked("hello")
        task, _ = await joined(client.send_message(request))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        turn = await api.turn(task.context_id, task.id)
        assert reply_of(task) == turn["reply"]["response"]["content"]
        assert task.history[0].parts[0].text == "hello"
        again, _ = await joined(client.send_message(request))
        assert (again.id, again.context_id, reply_of(again)) == (task.id, task.context_id, reply_of(task))
        follow_up, _ = await joined(client.send_message(asked("and now?", context=task.context_id)))
        assert (follow_up.context_id, len(await api.messages(task.context_id))) == (task.context_id, 4)
        got = await client.get_task(GetTaskRequest(id=task.id))
        assert (reply_of(got), got.status.state) == (reply_of(task), TaskState.TASK_STATE_COMPLETED)
        listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id, page_size=1))
        assert ([each.id for each in listed.tasks], listed.total_size) == ([follow_up.id], 2)
        wanted = ListTasksRequest(
            page_size=1,
            page_token=listed.next_page_token,
            status=TaskState.TASK_STATE_COMPLETED,
            include_artifacts=True,
        )
        rest = await client.list_tasks(wanted)
        assert ([each.id for each in rest.tasks], rest.next_page_token) == ([task.id], "")
        assert reply_of(rest.tasks[0]) == reply_of(task)
    async with client_of(stack, stack.api_key, agent, binding=binding, streaming=False) as client:
        task, _ = await joined(client.send_message(asked("hello", history_length=0)))
        assert (task.status.state, len(task.history)) == (TaskState.TASK_STATE_COMPLETED, 0)
        assert reply_of(task)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_calls_that_cannot_be_raise_the_clients_own_errors(
    stack: RunningStack, api: Api, alice: Caller, binding: str
) -> None:
    agent, other = await api.agent(), await api.agent()
    async with client_of(stack, stack.api_key, agent, binding=binding) as client:
        task, _ = await joined(client.send_message(asked("hello")))
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=unique()))
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(UnsupportedOperationError):
            await joined(client.subscribe(SubscribeToTaskRequest(id=task.id)))
        with pytest.raises(InvalidParamsError):
            await joined(client.send_message(asked("hello", context=unique())))
        with pytest.raises(InvalidParamsError):
            await joined(client.send_message(asked(" ")))
        with pytest.raises(InvalidParamsError):
            await client.list_tasks(ListTasksRequest(page_size=1000))
        with pytest.raises(UnsupportedOperationError):
            await joined(client.send_message(asked("more", task=task.id)))
        with pytest.raises(ContentTypeNotSupportedError):
            await joined(client.send_message(asked("", parts=[Part(raw=b"bytes", filename="a.bin")])))
        push = TaskPushNotificationConfig(task_id=task.id, id="p", url="https://example.com")
        with pytest.raises(PushNotificationNotSupportedError, match="webhook"):
            await client.create_task_push_notification_config(push)
        with pytest.raises(PushNotificationNotSupportedError):
            await joined(client.send_message(asked("hello", task_push_notification_config=push)))
        assert await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        used = asked("once")
        await joined(client.send_message(used))
        used.message.parts[0].text = "twice"
        with pytest.raises(InvalidParamsError):
            await joined(client.send_message(used))
    async with client_of(stack, stack.api_key, other, binding=binding) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=task.id))
        with pytest.raises(InvalidParamsError):
            await joined(client.send_message(asked("hello", context=task.context_id)))
    with pytest.raises(AgentCardResolutionError):
        async with client_of(stack, alice.secret, agent, binding=binding):
            pass


async def test_a_card_is_public_when_its_agent_is(stack: RunningStack, api: Api, anonymous: httpx.AsyncClient) -> None:
    private, public = await api.agent(), unique("open")
    made = await api.http.post("/agent/", json=configuration(name=public, system_prompt="secret", is_public=True))
    public = made.json()["agent_key"]
    place = f"{stack.base_url}/a2a/{{}}/.well-known/agent-card.json"
    refused = await anonymous.get(place.format(private))
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, -32600)
    assert "WWW-Authenticate" in refused.headers
    card = await anonymous.get(place.format(public), headers={"x-forwarded-proto": "https"})
    assert card.status_code == 200
    assert card.json()["supportedInterfaces"][0]["url"].startswith("https://")
    assert "secret" not in card.text
    assert (await anonymous.get(place.format("nobody"))).status_code == 401
    for headers in ({}, {"Authorization": "Bearer aes_" + "x" * 43}):
        answer = await anonymous.post(f"{stack.base_url}/a2a/{public}", json={}, headers=headers)
        assert (answer.status_code, answer.json()["jsonrpc"]) == (401, "2.0")


async def test_a_task_that_needs_answers(stack: RunningStack, api: Api) -> None:
    agent = await api.agent(BOTH, **GUARDED)
    async with client_of(stack, stack.api_key, agent) as client:
        task, told = await joined(client.send_message(asked(unique("refund"))))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert [call["tool_call"]["name"] for call in told if set(call) == {"tool_call"}] == [
            "calculator",
            "order_status",
        ]
        approval, result = by_kind([each for each in told if "action_id" in each])
        with pytest.raises(InvalidParamsError, match="action_id"):
            await joined(client.send_message(asked("yes", task=task.id)))
        begun = asyncio.Event()
        watcher = asyncio.create_task(joined(client.subscribe(SubscribeToTaskRequest(id=task.id)), begun))
        await until(begun.is_set)
        answered = data(action_id=result["action_id"], output={"state": "paid"})
        half, _ = await joined(client.send_message(asked("", task=task.id, parts=[answered])))
        assert half.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        decided = data(action_id=approval["action_id"], decision="approve")
        whole, told = await joined(client.send_message(asked("", task=task.id, parts=[decided])))
        assert whole.status.state == TaskState.TASK_STATE_COMPLETED
        outputs = {call["tool_result"]["name"]: call["tool_result"]["output"] for call in told if "tool_result" in call}
        assert "42" in outputs["calculator"]
        turn = await api.turn(task.context_id, task.id)
        assert reply_of(whole) == turn["reply"]["response"]["content"]
        watched, everything = await watcher
        assert reply_of(watched) == reply_of(whole)
        assert [each["tool_result"]["name"] for each in everything if "tool_result" in each] != []
        late = data(action_id=approval["action_id"], decision="deny")
        with pytest.raises(UnsupportedOperationError):
            await joined(client.send_message(asked("", task=task.id, parts=[late])))


async def test_a_task_is_followed_and_cancelled(stack: RunningStack, api: Api, model: HeldModel) -> None:
    agent = await api.agent("openai:stub-hold")
    async with (
        client_of(stack, stack.api_key, agent) as streaming,
        client_of(stack, stack.api_key, agent, streaming=False) as client,
    ):
        with model.held():
            begun, _ = await joined(client.send_message(asked("tell me", return_immediately=True)))
            assert begun.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
            is_followed = asyncio.Event()
            following = joined(streaming.subscribe(SubscribeToTaskRequest(id=begun.id)), is_followed)
            follower = asyncio.create_task(following)
            await until(is_followed.is_set)
            other, _ = await joined(client.send_message(asked("tell me", return_immediately=True)))
            cancelled = await client.cancel_task(CancelTaskRequest(id=other.id))
            assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        followed, _ = await follower
        assert followed.status.state == TaskState.TASK_STATE_COMPLETED
        assert reply_of(followed) == reply_of(await client.get_task(GetTaskRequest(id=begun.id)))

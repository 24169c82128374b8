"""Turns in the words of A2A: whoever applies the updates has the reply, whatever was given up on the way."""

from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Any

import orjson
import pytest
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageConfiguration, StreamResponse, Task, TaskState
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError, PushNotificationNotSupportedError
from google.protobuf.json_format import MessageToDict

from libs.contracts.errors import NotFound, RateLimited
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Event
from libs.contracts.replies import ExecuteReply
from libs.contracts.resources.turns import (
    ExecuteTurn,
    OutputInvalid,
    TurnActionRequired,
    TurnActionResolved,
    TurnCompleted,
    TurnRestarted,
)
from services.gateway.domain.turn_progress import TurnProgress
from services.gateway.domain.turn_stream import Cursor, StreamedEvent
from services.gateway.entrypoints.a2a.errors import SHAPE, a2a_error, http_error, json_rpc_error
from services.gateway.entrypoints.a2a.messages import answers_of, check_configuration, content_of
from services.gateway.entrypoints.a2a.tasks import TaskUpdates, data_part, task_of
from services.gateway.use_cases.turns import Turns
from tests.support import turn_events
from tests.support.gateway import Gateway, Sent
from tests.support.turn_events import ORDER, TOOL, called, delta, failed, ids, made, required, started, turn_of
from tests.unit.gateway.test_protocols import AGENT

IDENTITY = Identity(company_id="company", user_id="ada", key_id="key", scopes=frozenset())
FILES = "https://gateway/api/v1/sessions/s/artifacts"
SENT = Sent(ExecuteTurn(session_id="s", content="Hi"), "t", "label", IDENTITY, None)
TURN = ids(SENT)
STARTED, CALL, RESULT = started(SENT), called(SENT), made(SENT)
ACTION = required(SENT).action.model_copy(update={"action_id": "a"})
text = partial(delta, SENT)


def completed(content: str, **response: Any) -> TurnCompleted:
    return turn_events.completed(SENT, content, response=response)


def updates_of(*events: Event) -> list[StreamResponse]:
    updates = TaskUpdates("s", "t", FILES)
    return [
        update
        for number, event in enumerate(events, 1)
        for update in updates.take(TurnProgress(Cursor(sequence=number), event))
    ]


def applied(updates: Iterable[StreamResponse]) -> Task:
    """The task as the protocol's own library puts it together."""
    task = Task(id="t", context_id="s")
    for update in updates:
        if update.HasField("artifact_update"):
            append_artifact_to_task(task, update.artifact_update)
        else:
            task.status.CopyFrom(update.status_update.status)
    return task


def texts_of(task: Task) -> dict[str, str]:
    return {each.artifact_id: "".join(part.text for part in each.parts) for each in task.artifacts}


@pytest.mark.parametrize(
    "events",
    [
        (text("The re"), text("ply", 6)),
        (),
        (text("Let me see"), CALL, RESULT, text("The re", step=2), text("ply", 6, step=2)),
        (text("A lost beginning"), TurnRestarted(**TURN, attempt=2, resumed_from_step=0), text("The reply", attempt=2)),
        (text("A lost beginning"), TurnRestarted(**TURN, attempt=2, resumed_from_step=0)),
        (text("{no json"), OutputInvalid(**TURN, step=1, problems=["no"]), text("The reply", step=2)),
    ],
)
def test_the_artifact_reply_ends_as_the_reply(events: tuple[Event, ...]) -> None:
    updates = updates_of(STARTED, *events, completed("The reply"))
    task = applied(updates)
    assert texts_of(task) == {"reply": "The reply"}
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    last = [update.artifact_update for update in updates if update.HasField("artifact_update")][-1]
    assert (last.artifact.artifact_id, last.last_chunk) == ("reply", True)
    assert MessageToDict(last.artifact.metadata)["usage"]["output_tokens"] == 3


def test_text_that_was_given_up_is_taken_back_at_once() -> None:
    restarted = TurnRestarted(**TURN, attempt=2, resumed_from_step=0)
    assert texts_of(applied(updates_of(STARTED, text("A lost beginning"), restarted))) == {"reply": ""}
    kept = updates_of(STARTED, text("Let me see"), CALL, RESULT, restarted.model_copy(update={"resumed_from_step": 1}))
    assert texts_of(applied(kept)) == {"reply": "Let me see"}


def test_tool_calls_are_told_in_their_order_with_what_they_were_called_with() -> None:
    updates = updates_of(STARTED, text("Let me"), CALL, RESULT, text("done", step=2), completed("done"))
    told = [MessageToDict(update.status_update.status) for update in updates if update.HasField("status_update")]
    assert [status["state"] for status in told] == [*["TASK_STATE_WORKING"] * 3, "TASK_STATE_COMPLETED"]
    data = [status["message"]["parts"][0]["data"] for status in told if "message" in status]
    assert data == [
        {"tool_call": {"id": "c1", "name": TOOL, "arguments": ORDER}},
        {"tool_result": {"id": "c1", "name": TOOL, "status": "completed", "output": "refunded"}},
    ]


async def streamed(*events: Event) -> AsyncGenerator[StreamedEvent | None, None]:
    for number, event in enumerate(events, 1):
        yield StreamedEvent(Cursor(number), event.TYPE, event.encode())


async def test_a_stream_after_answers_begins_behind_them(public: Gateway) -> None:
    turns: Turns = public.api.application.state.door.turns

    async def followed(*events: Event) -> list[Event]:
        parts = turns.up_to_wait(IDENTITY, streamed(*events), answered=["a"])
        return [part.event async for part in parts if isinstance(part, TurnProgress)]

    waits = TurnActionRequired(**TURN, step=1, action=ACTION)
    resolved = TurnActionResolved(**TURN, action_id="a", kind="approval", call_id="c1", decision="approve", by="me")
    before = (STARTED, text("Let me"), CALL, waits, resolved)
    rest = (RESULT, text("ok", step=2), completed("ok"))
    assert await followed(*before, *rest) == list(rest)
    assert texts_of(applied(updates_of(*rest))) == {"reply": "ok"}
    # The end of the turn closes actions without a word.
    assert await followed(*before[:-1], completed("ok")) == [completed("ok")]


async def test_a_stream_after_one_of_two_answers_ends_with_the_other_wait(public: Gateway) -> None:
    turn_id = new_id()
    place = {"session_id": "s", "turn_id": turn_id}
    other = ACTION.model_copy(update={"action_id": "b"})
    waiting = turn_of(**place, status="waiting", required_actions=[other])
    public.upstreams.answers["GET", "runtime", f"/internal/turns/{turn_id}"] = (200, waiting.model_dump(mode="json"))
    waits = [TurnActionRequired(**place, step=1, action=action) for action in (ACTION, other)]
    resolved = TurnActionResolved(**place, action_id="a", kind="approval", call_id="c1", decision="approve", by="me")
    events = streamed(STARTED, *waits, resolved)
    turns: Turns = public.api.application.state.door.turns
    parts = turns.up_to_wait(IDENTITY, events, answered=["a"])
    assert [part async for part in parts] == [waiting]


def test_the_task_of_a_turn_and_its_updates_say_the_same() -> None:
    artifact = {"artifact_id": "f", "name": "a.csv", "content_type": "text/csv", "size": 3}
    citation = {"passage": "so it is", "file_name": "b.txt"}
    end = completed('{"a":1}', output={"a": 1}, artifacts=[artifact], citations=[citation])
    joined = applied(updates_of(STARTED, text('{"a":1}'), end))
    reply = ExecuteReply.model_validate(end.model_dump())
    turn = turn_of(**TURN, status="completed", reply=reply)
    task = task_of(turn, FILES)
    assert texts_of(task) == texts_of(joined) == {"reply": '{"a":1}', "output": "", "f": ""}
    for own, others in zip(task.artifacts, joined.artifacts, strict=True):
        assert own.metadata == others.metadata
        assert own.parts[0] == others.parts[0]
    assert task.artifacts[2].parts[0].url == f"{FILES}/f/download/"
    assert MessageToDict(task.artifacts[0].metadata)["citations"] == [citation]
    waiting = turn.model_copy(update={"status": "waiting", "reply": None, "required_actions": [ACTION]})
    status = MessageToDict(task_of(waiting, FILES).status)
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert status["message"]["parts"][1]["data"]["action_id"] == "a"
    assert (
        MessageToDict(TaskUpdates("s", "t", FILES).waiting([ACTION]).status_update.status)["message"]
        == status["message"]
    )


def test_a_turn_that_fails_says_why() -> None:
    task = applied(updates_of(STARTED, text("half"), failed(SENT)))
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert task.status.message.parts[0].text == "the model is ill"


def message(*parts: Part) -> Message:
    return Message(message_id="m", role=Role.ROLE_USER, parts=parts)


def test_parts_become_the_content_of_a_turn() -> None:
    image = Part(url="https://example.com/a.png", media_type="image/png")
    content = content_of(message(Part(text="hello"), data_part({"share": 0.5, "order": 4711}), image))
    assert [block.model_dump() for block in content] == [
        {"type": "text", "text": "hello"},
        {"type": "text", "text": '{"order":4711,"share":0.5}'},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    for part in (Part(raw=b"bytes", filename="a.bin"), Part(url="https://example.com/a.pdf")):
        with pytest.raises(ContentTypeNotSupportedError, match=r"message\.parts\.1"):
            content_of(message(Part(text="hello"), part))
    with pytest.raises(InvalidParamsError, match=r"message\.parts"):
        content_of(message(Part(text=" ")))


def test_answers_are_data_parts() -> None:
    answers = answers_of(
        message(
            data_part({"action_id": "a", "decision": "deny", "reason": "no"}),
            data_part({"action_id": "b", "output": 1}),
        )
    )
    assert answers["a"].reason == "no"
    assert (answers["b"].output, answers["b"].error) == (1, None)
    assert isinstance(answers["b"].output, int)
    for wrong in (Part(text="yes"), data_part({"decision": "approve"}), data_part({"action_id": "a"})):
        with pytest.raises(InvalidParamsError, match=r"message\.parts\.0"):
            answers_of(message(wrong))


def test_what_is_not_done_is_refused_by_name() -> None:
    with pytest.raises(PushNotificationNotSupportedError, match="webhook"):
        check_configuration(SendMessageConfiguration(task_push_notification_config={"url": "https://example.com"}))
    with pytest.raises(ContentTypeNotSupportedError):
        check_configuration(SendMessageConfiguration(accepted_output_modes=["video/mp4"]))
    check_configuration(SendMessageConfiguration(accepted_output_modes=["video/mp4", "text/plain"]))


GET_TASK: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        ([GET_TASK], -32600),
        ({**GET_TASK, "jsonrpc": "1.0"}, -32600),
        ({**GET_TASK, "id": True}, -32600),
        ({**GET_TASK, "method": "message/send"}, -32601),
        ({**GET_TASK, "params": []}, -32602),
        ({**GET_TASK, "params": {"id": [1]}}, -32602),
        ({**GET_TASK, "params": {}}, -32602),
        (GET_TASK, -32001),
    ],
)
async def test_what_is_no_call_has_the_codes_of_json_rpc(public: Gateway, body: Any, code: int) -> None:
    public.upstreams.answers["GET", "registry", "/internal/agents/by-key/support"] = (200, AGENT)
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    async with public.protocol("/a2a") as client:
        answer = await client.post("/a2a/support", content=content, headers={"A2A-Version": "1.0"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)
        older = await client.post("/a2a/support", json=GET_TASK, headers={"A2A-Version": "0.3"})
        assert older.json()["error"]["code"] == -32009


def test_errors_carry_the_codes_of_the_protocol() -> None:
    error = a2a_error(NotFound("There is no turn with this ID."))
    assert error is not None
    response = json_rpc_error(7, error)
    assert (response["id"], response["error"]["code"]) == (7, -32001)
    assert http_error(error)[0] == 404
    assert a2a_error(RateLimited("Slowly.")) is None
    body = SHAPE.body(RateLimited("Slowly.").info())
    assert b'"jsonrpc":"2.0","id":null' in body
    assert SHAPE.event(RateLimited("Slowly.").info()) == b"event: error\ndata: " + body + b"\n\n"

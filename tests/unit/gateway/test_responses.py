"""OpenAI's responses: their fields, their events out of those of turns, and their copies of sessions."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import ValidationError

from libs.contracts.errors import BudgetExceeded, Conflict, ErrorDetail, ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Event
from libs.contracts.replies import ExecuteReply, Reply, Usage
from libs.contracts.resources import turns
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import RequiredAction, TurnRequest
from libs.contracts.timestamps import now_text
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.domain.turn_progress import TurnProgress
from services.gateway.domain.turn_stream import Cursor
from services.gateway.entrypoints.openai.input_items import is_instruction, parse_history, with_question
from services.gateway.entrypoints.openai.response_builder import ResponseBuilder, after, response_id
from services.gateway.entrypoints.openai.response_request import (
    UNSUPPORTED,
    WITHOUT_EFFECT,
    CreateResponse,
    response_head,
)
from services.gateway.entrypoints.openai.response_turns import ResponseTurns
from tests.support import turn_events
from tests.support.gateway import Gateway, Sent
from tests.unit.gateway.test_chat_completions import CONFIGURATION


def test_every_field_of_the_client_is_honoured_or_refused() -> None:
    known = {*get_type_hints(ResponseCreateParamsBase), "stream"}
    honoured = set(CreateResponse.model_fields)
    assert honoured | set(WITHOUT_EFFECT) | UNSUPPORTED == known
    assert not honoured & (set(WITHOUT_EFFECT) | UNSUPPORTED)
    assert not set(WITHOUT_EFFECT) & UNSUPPORTED


@pytest.mark.parametrize("field", sorted({*UNSUPPORTED, *WITHOUT_EFFECT, "of_a_newer_client"}))
def test_a_field_that_would_do_nothing_is_refused_by_name(field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        CreateResponse.model_validate({"model": "m", "input": "Hello", field: "anything"}, strict=True)
    assert [error["loc"] for error in refused.value.errors()] == [(field,)]


@pytest.mark.parametrize("field", sorted({*UNSUPPORTED, *WITHOUT_EFFECT}))
def test_null_asks_for_nothing(field: str) -> None:
    assert CreateResponse.model_validate({"model": "m", field: None}, strict=True).model == "m"


def test_the_response_says_again_what_was_asked_for() -> None:
    asked: dict[str, Any] = {
        "model": "m",
        "input": "Hello",
        "instructions": "Be brief.",
        "background": True,
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "temperature": 1,
        "top_p": 0.5,
        "max_output_tokens": 5,
        "metadata": {"a": "b"},
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "p",
    }
    body = CreateResponse.model_validate(asked, strict=True)
    head = response_head(body.options("m", "And polite."), 1)
    own = {name: head[name] for name in asked if name not in ("input", "tools", "text")}
    assert own == {name: value for name, value in asked.items() if name in own}
    assert head["tools"][0]["name"] == "f"
    assert head["text"]["format"] == asked["text"]["format"]
    assert head["metadata"] == {"a": "b"}


async def test_a_field_is_refused_by_its_own_name_and_a_long_text_is_taken(public: Gateway) -> None:
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, CONFIGURATION)
    public.bus.upstream = lambda sent: [turn_events.started(sent), turn_events.completed(sent)]
    form = {"type": "json_schema", "name": "x", "schema": {"type": 3}}
    async with public.protocol("/openai/v1") as client:
        asked = {"model": "support", "input": "x" * 400_000}
        refused = await client.post("/openai/v1/responses", json={**asked, "text": {"format": form}})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "text.format.schema.type")
        assert (await client.post("/openai/v1/responses", json=asked)).json()["status"] == "completed"


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_turn_that_cannot_be_read_any_more_is_not_begun_again(public: Gateway, is_lost: bool) -> None:
    """The runtime is away when the turn asks for an approval, or when its first event is lost."""
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, CONFIGURATION)

    def away(sent: Sent) -> list[Event]:
        public.upstreams.down = True
        if is_lost:
            public.bus.lose(sent, turn_events.started(sent))
            return [turn_events.completed(sent)]
        return [turn_events.started(sent), turn_events.required(sent)]

    public.bus.upstream = away
    async with public.protocol("/openai/v1") as client:
        answer = await client.post("/openai/v1/responses", json={"model": "support", "input": "Hi"})
    [sent] = public.bus.sent
    assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "false")
    named = {"session_id": answer.headers["x-session-id"], "turn_id": answer.headers["x-turn-id"]}
    assert named == turn_events.ids(sent)


def test_items_come_back_as_the_client_parsed_them() -> None:
    text = {"type": "output_text", "text": "{}", "annotations": [], "logprobs": None, "parsed": {"zone": "UTC"}}
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [text],
        "phase": None,
    }
    called = {
        "type": "function_call", "id": "fc", "call_id": "c", "name": "clock", "arguments": "{}", "status": "completed",
        "parsed_arguments": {"zone": "UTC"}, "namespace": None, "caller": None, "async": None,
    }  # fmt: skip
    output = {"type": "function_call_output", "call_id": "c", "output": "noon", "acknowledged": None}

    items = CreateResponse.model_validate({"model": "m", "input": [message, called, output]}, strict=True).items

    assert [type(item).__name__ for item in items] == ["MessageInput", "FunctionCall", "FunctionCallOutput"]
    with pytest.raises(ValidationError) as refused:
        CreateResponse.model_validate({"model": "m", "input": [{**message, "mood": "good"}]}, strict=True)
    assert refused.value.errors()[-1]["loc"][-1] == "mood"


def test_as_many_functions_are_taken_as_openai_takes() -> None:
    tools = [{"type": "function", "name": f"f{number}"} for number in range(129)]
    taken = CreateResponse.model_validate({"model": "m", "tools": tools[:128]}, strict=True)
    assert len(taken.options("m", "").client_tools or ()) == 128
    with pytest.raises(ValidationError):
        CreateResponse.model_validate({"model": "m", "tools": tools}, strict=True)


def test_without_a_message_of_the_user_the_last_instruction_is_the_question() -> None:
    """AutoGen and others choose the next speaker with a single message of role ``system``."""
    input_items = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Who is next?"}]
    asked = with_question(CreateResponse.model_validate({"input": input_items}).items)
    assert parse_history(asked).question == "Who is next?"
    assert [item.text for item in asked if is_instruction(item)] == ["Be brief."]
    kept = [*input_items, {"role": "user", "content": "Hello!"}]
    asked = with_question(CreateResponse.model_validate({"input": kept}).items)
    assert parse_history(asked).question == "Hello!"
    assert [item.text for item in asked if is_instruction(item)] == ["Be brief.", "Who is next?"]


CUTS = random.Random(4711)
TURN = new_id()
ABOUT: dict[str, Any] = {"session_id": new_id(), "turn_id": TURN}
Events = list[dict[str, Any]]


class Turn:
    """Events of a turn with their places, as every replica has them."""

    def __init__(self) -> None:
        self.at = Cursor()
        self.made: list[TurnProgress] = []

    def event(self, kind: type[Event], /, **fields: Any) -> "Turn":
        self.at = Cursor(self.at.sequence + 1, self.at.attempt, self.at.step)
        self.made.append(TurnProgress(self.at, kind.model_validate({**ABOUT, **fields})))
        return self

    def text(self, text: str, *, sizes: Sequence[int] = (3,)) -> "Turn":
        offset = 0
        while offset < len(text):
            piece = text[offset : offset + CUTS.choice(sizes)]
            self.at = self.at._replace(offset=offset + len(piece))
            fields = {"attempt": 1, "step": 1, "offset": offset, "text": piece}
            self.made.append(TurnProgress(self.at, turns.OutputTextDelta.model_validate({**ABOUT, **fields})))
            offset += len(piece)
        return self

    def started(self) -> "Turn":
        return self.event(turns.TurnStarted, attempt=1, user_message_id=new_id())

    def completed(self, text: str) -> "Turn":
        reply = ExecuteReply(
            **ABOUT,
            message_id=new_id(),
            response=Reply(content=text),
            correlation_id="label",
            user_message_id=new_id(),
            usage=Usage(input_tokens=3, output_tokens=4),
            config_hash="0",
        )
        return self.event(turns.TurnCompleted, **reply.model_dump())


def taken(turn: Turn, part: int = 0) -> tuple[ResponseBuilder, Events]:
    builder = ResponseBuilder(TURN, {"object": "response"}, part)
    return builder, [event for progress in turn.made for event in builder.take(progress)]


def texts(events: Events) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def action(kind: str, name: str = "order_status") -> RequiredAction:
    call = RequestedToolCall(id=f"call_{kind}", name=name, arguments={"order": 1})
    return RequiredAction(action_id=new_id(), kind=kind, tool_call=call, expires_at=now_text())  # type: ignore[arg-type]


def waiting() -> tuple[Turn, RequiredAction, RequiredAction]:
    asked, approval = action("tool_result"), action("approval", "shop.refund")
    turn = Turn().started()
    for each in (asked, approval):
        call = each.tool_call
        turn.event(turns.ToolCallStarted, step=1, call_id=call.id, name=call.name, arguments=call.arguments)
    turn.event(turns.TurnActionRequired, step=1, action=asked.model_dump())
    turn.event(turns.TurnActionRequired, step=1, action=approval.model_dump())
    return turn, asked, approval


def resolve(turn: Turn, each: RequiredAction, decision: str | None = None) -> None:
    fields = {"action_id": each.action_id, "kind": each.kind, "call_id": each.tool_call.id, "decision": decision}
    turn.event(turns.TurnActionResolved, **fields, by="someone")


def test_numbers_grow_and_the_client_sees_a_whole_message() -> None:
    builder, events = taken(Turn().started().text("Hello there").completed("Hello there"))
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    assert [event["type"].removeprefix("response.") for event in events if "delta" not in event["type"]] == [
        "created", "in_progress", "output_item.added", "content_part.added",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert texts(events) == "Hello there"
    response = builder.response()
    assert events[-1]["response"] == response
    assert (response["id"], response["status"]) == (response_id(TURN), "completed")
    assert response["usage"]["total_tokens"] == 7
    (message,) = response["output"]
    assert (message["status"], message["content"][0]["text"]) == ("completed", "Hello there")


def test_a_stream_cut_otherwise_goes_on_at_any_number() -> None:
    text = "The stub answers with a text that is cut in many ways."
    for _ in range(50):
        _, first = taken(Turn().started().text(text, sizes=(1, 2, 5, 11)).completed(text))
        _, other = taken(Turn().started().text(text, sizes=(1, 3, 7, 20)).completed(text))
        seen = CUTS.randrange(len(first))
        rest = after(other, first[seen]["sequence_number"])
        assert texts(first[: seen + 1]) + texts(rest) == text
        named = [event["type"] for event in [*first[: seen + 1], *rest] if event["type"][-5:] != "delta"]
        assert named == [event["type"] for event in first if event["type"][-5:] != "delta"]


def test_a_voided_attempt_is_closed_as_incomplete_and_a_new_item_begins() -> None:
    turn = Turn().started().text("Half an ans")
    turn.event(turns.TurnRestarted, attempt=2, resumed_from_step=0).text("An answer").completed("An answer")
    builder, events = taken(turn)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["status"] for item in done] == ["incomplete", "completed"]
    assert "".join(item["content"][0]["text"] for item in done if item["status"] == "completed") == "An answer"
    output = builder.response()["output"]
    assert [item["id"] for item in output] == [item["id"] for item in done]
    assert [part["text"] for item in output for part in item["content"]] == ["An answer"]


def test_what_is_said_before_a_call_is_no_part_of_the_reply() -> None:
    turn = Turn().started().text("Let me see.")
    call = {"step": 1, "call_id": "call_1", "name": "shop.lookup"}
    turn.event(turns.ToolCallStarted, **call, arguments={"order": 1}, text_length=11)
    turn.event(turns.ToolCallFailed, **call, reason="it is closed").text("Closed.").completed("Closed.")
    builder, _ = taken(turn)
    said, called, reply = builder.response()["output"]
    assert (said["status"], said["phase"], said["content"]) == ("incomplete", "commentary", [])
    assert (called["server_label"], called["name"], called["status"]) == ("shop", "lookup", "failed")
    assert called["error"]["content"][0]["text"] == "it is closed"
    assert reply["content"][0]["text"] == "Closed."


def test_a_wait_ends_a_response_wherever_it_is_noticed() -> None:
    turn, asked, approval = waiting()
    live, events = taken(turn)
    assert not live.has_ended
    events += live.end_if_waiting(turn_events.turn_of(**ABOUT, status="waiting", required_actions=[asked, approval]))
    assert [item["type"] for item in live.response()["output"]] == ["function_call", "mcp_approval_request"]
    resolve(turn, asked)
    turn.event(turns.ToolCallCompleted, step=1, call_id=asked.tool_call.id, name="order_status", output="paid")
    resolve(turn, approval, "approve")
    turn.event(turns.ToolCallCompleted, step=1, call_id=approval.tool_call.id, name="shop.refund", output="done")
    turn.text("Both are done.").completed("Both are done.")
    replayed, later = taken(turn)
    assert (replayed.response(), later) == (live.response(), events)
    second, following = taken(turn, 1)
    assert following[0]["type"] == "response.created"
    assert following[0]["sequence_number"] > events[-1]["sequence_number"]
    response = second.response()
    assert response["id"] == f"resp_{TURN}_1"
    assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
    assert response["output"][0]["approval_request_id"] == f"mcpr_{approval.action_id}"
    assert [(item["type"], item.get("output"), item.get("approve")) for item in second.inputs] == [
        ("function_call_output", "paid", None),
        ("mcp_approval_response", None, True),
    ]


def test_a_turn_cancelled_while_it_waits_was_answered_with_its_calls_and_is_cancelled() -> None:
    turn, *_ = waiting()
    builder, events = taken(turn.event(turns.TurnCancelled, reason="asked to"))
    assert events[-1]["type"] == "response.completed"
    assert builder.response()["status"] == "cancelled"
    assert len(builder.response()["output"]) == 2


def test_a_failed_turn_is_a_failed_response() -> None:
    detail = ErrorDetail(loc=["model"], type="gone", message="is gone", hint="use another model")
    error = ErrorInfo(type=ErrorKind.MODEL, message="The model is gone.", details=[detail])
    builder, events = taken(Turn().started().text("Hal").event(turns.TurnFailed, error=error.model_dump()))
    assert (events[-1]["type"], builder.status) == ("response.failed", "failed")
    message = "The model is gone. Use another model."
    assert builder.response()["error"] == {"code": "server_error", "message": message}
    assert [item["status"] for item in builder.response()["output"]] == ["incomplete"]


IDENTITY = Identity(company_id="c", user_id="u", key_id="k", scopes=frozenset())
CALLER = Principal(identity=IDENTITY, expires_at=None, rate_limit=None)
PREVIOUS = new_id()
MOVED_ON = Conflict("gone on", details=[ErrorDetail(loc=[], type="session_moved_on", message="gone on")])


class Runtime:
    """Refuses turns, which are ``asked`` for; ``forks`` are what sessions were copied for, ``deleted`` those that are
    gone."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = list(refusals)
        self.asked: list[TurnRequest] = []
        self.forks: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    async def fork(self, _: Write, __: str, **asked: Any) -> SimpleNamespace:
        self.forks.append(asked)
        return SimpleNamespace(session_id=f"fork-{len(self.forks)}")

    async def delete(self, _: Write, session_id: str) -> None:
        self.deleted.append(session_id)

    @asynccontextmanager
    async def submit(self, _write: object, _session: str, _content: object, asked: TurnRequest) -> AsyncIterator[Any]:
        self.asked.append(asked)
        raise self.refusals.pop(0)
        yield

    async def read(self, *_: object) -> SimpleNamespace:
        """The previous turn, and its session."""
        return SimpleNamespace(
            session_id="source",
            turn_id=PREVIOUS,
            position=1,
            status="completed",
            options=None,
            agent_config={"name": "shop"},
            config_hash="hash",
        )


def request() -> IdempotentRequest:
    named = {"company_id": "c", "principal_id": "u", "method": "POST", "path": "/", "key": "key"}
    return IdempotentRequest(**named, body_hash=b"")


async def refused(runtime: Runtime, *, store: bool, key: IdempotentRequest | None = None) -> None:
    door: Any = SimpleNamespace(turns=runtime, sessions=runtime)
    write = Write(identity=IDENTITY, correlation_id="label", request=key)
    responses = ResponseTurns(door, CALLER, write)
    body = CreateResponse(input="more", previous_response_id=f"resp_{PREVIOUS}", store=store)
    begun = await responses.begin(body, stream=False)
    with pytest.raises(BudgetExceeded):
        async for _ in responses.follow(begun):
            pass


async def test_a_copy_for_what_is_not_stored_expires_whatever_becomes_of_the_turn() -> None:
    runtime = Runtime(BudgetExceeded("used up"))
    await refused(runtime, store=False)
    assert [fork["expires_after"] for fork in runtime.forks] == [3600]


@pytest.mark.parametrize(("key", "deleted"), [(None, ["fork-1"]), (request(), [])])
async def test_a_copy_beside_a_session_that_went_on_goes_with_its_refused_turn(
    key: IdempotentRequest | None, deleted: list[str]
) -> None:
    runtime = Runtime(MOVED_ON, BudgetExceeded("used up"))
    await refused(runtime, store=True, key=key)
    assert [fork["expires_after"] for fork in runtime.forks] == [None]
    assert runtime.deleted == deleted


async def test_no_turn_is_given_less_than_the_whole_conversation() -> None:
    """`truncation` is "disabled": in the session itself, and in a copy of it."""
    runtime = Runtime(MOVED_ON, BudgetExceeded("used up"))
    await refused(runtime, store=True)
    assert [(asked.position, asked.whole_history) for asked in runtime.asked] == [(2, True), (None, True)]

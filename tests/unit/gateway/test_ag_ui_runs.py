"""Turns in the words of AG-UI: whoever applies the events has the reply, whatever was given up on the way."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from ag_ui.core import BaseEvent, Event, EventType, RunAgentInput, UserMessage
from pydantic import TypeAdapter

from libs.contracts.errors import ErrorInfo, ErrorKind, PermissionDenied, RateLimited, ValidationFailed
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.actions import OpenAction
from libs.contracts.resources.turns import OutputInvalid, RequiredAction, TurnRestarted
from services.gateway.domain.accounts import Principal
from services.gateway.domain.connections import PublicUse
from services.gateway.domain.idempotency import Write
from services.gateway.domain.turn_progress import TurnProgress
from services.gateway.domain.turn_stream import Cursor, StreamedEvent
from services.gateway.entrypoints.ag_ui.application import SHAPE
from services.gateway.entrypoints.ag_ui.run_events import RunEvents
from services.gateway.entrypoints.ag_ui.run_input import (
    answers_of,
    content_of,
    new_of,
    options_of,
    run_input,
    tail_of,
)
from services.gateway.entrypoints.ag_ui.runs import Runs, Thread
from tests.support.turn_events import cancelled, failed
from tests.unit.gateway.test_a2a_tasks import ACTION, CALL, RESULT, SENT, STARTED, TURN, completed, text

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
USER = {"id": "u1", "role": "user", "content": "hello"}
IDENTITY = Identity(company_id="c", user_id="u", key_id="k", scopes=frozenset())
CALLER = Principal(identity=IDENTITY, expires_at=None, rate_limit=None)
PUBLIC_CALLER = Principal(
    identity=IDENTITY,
    expires_at=None,
    rate_limit=None,
    public=PublicUse(agent_id="a", agent_key="shop", origins=frozenset(), sees_as=IDENTITY),
)
TOOL = {"name": "show_map", "description": "Shows a map.", "parameters": {"type": "object"}}


def given(*messages: dict[str, Any], **fields: Any) -> RunAgentInput:
    return RunAgentInput.model_validate({"threadId": "t", "runId": "r", "messages": list(messages), **fields})


def events_of(run: RunEvents, *events: Any, attempt: int = 1) -> list[BaseEvent]:
    made = run.begin()
    for number, event in enumerate(events, 1):
        attempt = getattr(event, "attempt", attempt)
        made += run.take(TurnProgress(Cursor(sequence=number, attempt=attempt), event))
    return made


def applied(messages: Iterable[dict[str, Any]], events: Iterable[BaseEvent]) -> list[dict[str, Any]]:
    """The client's messages after the events, by the rules of the protocol's own client; every event is a valid one."""
    kept = {each["id"]: dict(each) for each in messages}
    open_texts: set[str] = set()
    for event in events:
        each = EVENT.validate_json(event.model_dump_json(by_alias=True))
        match each.type:
            case EventType.TEXT_MESSAGE_START:
                open_texts.add(each.message_id)
                kept.setdefault(each.message_id, {"id": each.message_id, "role": "assistant", "content": ""})
            case EventType.TEXT_MESSAGE_CONTENT:
                assert each.message_id in open_texts
                kept[each.message_id]["content"] += each.delta
            case EventType.TEXT_MESSAGE_END:
                open_texts.remove(each.message_id)
            case EventType.TOOL_CALL_START:
                holder = kept.setdefault(each.parent_message_id, {"id": each.parent_message_id, "role": "assistant"})
                holder["calls"] = [*holder.get("calls", ()), each.tool_call_name]
            case EventType.TOOL_CALL_RESULT:
                kept[each.message_id] = {"id": each.message_id, "role": "tool", "content": each.content}
            case EventType.MESSAGES_SNAPSHOT:
                own = {message.id: message.model_dump() for message in each.messages}
                kept = {own_id: kept.get(own_id, message) for own_id, message in own.items()}
            case EventType.RUN_FINISHED | EventType.RUN_ERROR:
                assert not open_texts
    return list(kept.values())


def texts_of(messages: list[dict[str, Any]]) -> list[str]:
    return [each["content"] for each in messages if each["role"] == "assistant" and each.get("content")]


RESTARTED = TurnRestarted(**TURN, attempt=2, resumed_from_step=0)


@pytest.mark.parametrize(
    ("events", "texts"),
    [
        ((text("The re"), text("ply", 6)), []),
        ((), []),
        ((text("Let me see"), CALL, RESULT, text("The re", step=2), text("ply", 6, step=2)), ["Let me see"]),
        ((text("A lost beginning"), RESTARTED, text("The reply", attempt=2)), []),
        ((text("A lost beginning"), RESTARTED), []),
        ((text("{}"), OutputInvalid(**TURN, step=1, problems=["no"]), text("The reply", step=2)), []),
    ],
)
def test_the_last_message_is_the_reply(events: tuple[Any, ...], texts: list[str]) -> None:
    made = events_of(RunEvents(given(USER), "s", "t"), STARTED, *events, completed("The reply"))
    messages = applied([USER], made)
    assert texts_of(messages) == [*texts, "The reply"]
    assert messages[0]["content"] == "hello"
    end = made[-1].model_dump(mode="json", by_alias=True)
    assert (end["type"], end["outcome"], end["usage"][0]["totalTokens"]) == ("RUN_FINISHED", {"type": "success"}, 10)
    assert end["result"] == {"session_id": "s", "turn_id": "t", "message_id": "m2"}


def test_a_run_that_broke_off_comes_again_whole() -> None:
    """The client repeats the run with what it has of it: half a text, a call and its result."""
    events = (STARTED, text("Let me"), CALL, RESULT, text("The reply", step=2), completed("The reply"))
    broken = applied([USER], events_of(RunEvents(given(USER), "s", "t"), *events[:4], text("The r", step=2)))
    assert texts_of(broken) == ["Let me", "The r"]
    assistant = {"id": "t.1.1", "role": "assistant", "content": "Let me", "toolCalls": [
        {"id": "c1", "type": "function", "function": {"name": CALL.name, "arguments": "{}"}}
    ]}  # fmt: skip
    has = [USER, assistant, {"id": "t.c1", "role": "tool", "content": "refunded", "toolCallId": "c1"}]
    has.append({"id": "t.1.2", "role": "assistant", "content": "The r"})
    again = applied(has, events_of(RunEvents(given(*has), "s", "t"), *events))
    assert texts_of(again) == ["Let me", "The reply"]
    assert [each["id"] for each in again] == ["u1", "t.1.1", "t.c1", "t.1.2"]


def test_calls_and_results_hang_together() -> None:
    made = events_of(RunEvents(given(USER), "s", "t"), STARTED, CALL, RESULT, text("done", step=2), completed("done"))
    assert [event.type.value for event in made] == [
        "RUN_STARTED", "STATE_SNAPSHOT", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STATE_DELTA", "RUN_FINISHED",
    ]  # fmt: skip
    assert made[3].model_dump()["delta"] == '{"order":4711}'


def test_waits_end_a_run() -> None:
    run = RunEvents(given(USER, state={"page": 7}), "s", "t")
    made = [*events_of(run, STARTED, CALL), *run.waiting([ACTION])]
    assert made[1].model_dump()["snapshot"] == {
        "page": 7,
        "session": {"session_id": "s", "turn_id": "t", "status": "running"},
    }
    (interrupt,) = made[-1].model_dump(mode="json", by_alias=True)["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"]) == ("a", "c1")
    pending = ACTION.model_copy(update={"kind": "tool_result"})
    outcome = RunEvents(given(USER), "s", "t").waiting([pending])[-1].model_dump(mode="json", by_alias=True)["outcome"]
    assert outcome == {"type": "success", "pendingToolCallIds": ["c1"]}


def test_a_result_that_the_client_has_given_is_not_told_again() -> None:
    result = {"id": "own", "role": "tool", "content": "Bremen", "toolCallId": "c1"}
    made = events_of(RunEvents(given(USER, result), "s", "t"), RESULT, text("ok", step=2), completed("ok"))
    kinds = [event.type.value for event in made]
    assert kinds[2:5] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert "MESSAGES_SNAPSHOT" not in kinds


def test_turns_that_do_not_complete() -> None:
    end = events_of(RunEvents(given(USER), "s", "t"), STARTED, text("half"), failed(SENT))[-1]
    assert end.model_dump(exclude_none=True)["code"] == "model_error"
    end = events_of(RunEvents(given(USER), "s", "t"), STARTED, cancelled(SENT))[-1]
    assert end.model_dump(mode="json")["outcome"] == {"type": "cancelled"}
    event = SHAPE.event(ErrorInfo(type=ErrorKind.UNAVAILABLE, message="away"))
    assert EVENT.validate_json(event.removeprefix(b"data: ")).code == "service_unavailable"


@pytest.mark.parametrize(
    ("texts", "unanswered", "new"),
    [
        (["a"], [], ["a"]),
        (["a"], ["a"], []),
        (["a", "b"], ["a"], ["b"]),
        (["a", "a"], ["a"], ["a"]),
        (["b"], ["a"], ["b"]),
        (["a", "b"], ["a", "b"], []),
        (["b", "c"], ["a", "b"], ["c"]),
        (["a"], ["a", "b"], ["a"]),
        ([], ["a"], []),
    ],
)
def test_only_what_the_session_does_not_have_is_new(texts: list[str], unanswered: list[str], new: list[str]) -> None:
    users = tail_of(given(*({"id": f"u{n}", "role": "user", "content": each} for n, each in enumerate(texts)))).users
    assert [user.content for user in new_of(users, unanswered)] == new


def test_the_tail_is_what_follows_the_last_answer() -> None:
    answer = {"id": "a1", "role": "assistant", "content": "hi"}
    result = {"id": "x", "role": "tool", "content": "Bremen", "toolCallId": "c"}
    activity = {"id": "y", "role": "activity", "activityType": "plan", "content": {}}
    tail = tail_of(given(USER, answer, result, activity, {**USER, "id": "u2", "content": "and?"}))
    assert [user.content for user in tail.users] == ["and?"]
    assert set(tail.results) == {"c"}
    assert tail_of(given(USER, answer)).users == []
    part = {"id": "t.1.1", "role": "assistant", "content": "a lost begin"}
    assert [user.content for user in tail_of(given(USER, part), "t").users] == ["hello"]
    assert tail_of(given(USER, part), "other").users == []


def test_answers_of_the_client() -> None:
    result = ACTION.model_copy(update={"action_id": "b", "kind": "tool_result"})
    made = RequiredAction.model_validate(
        {**result.model_dump(), "tool_call": {"id": "d", "name": "x", "arguments": {}}}
    )
    message = {"id": "x", "role": "tool", "content": "Bremen", "toolCallId": "d"}
    asked = given(
        USER, message, resume=[{"interruptId": "a", "status": "resolved", "payload": {"decision": "approve"}}]
    )
    answers = answers_of(asked, tail_of(asked), [ACTION, made])
    assert (answers["a"].decision, answers["b"].output) == ("approve", "Bremen")
    withdrawn = given(USER, resume=[{"interruptId": each, "status": "cancelled"} for each in ("a", "b", "gone")])
    answers = answers_of(withdrawn, tail_of(withdrawn), [ACTION, made])
    assert (answers["a"].decision, bool(answers["b"].error), len(answers)) == ("deny", True, 2)
    failed = given(USER, {**message, "error": "no map"})
    assert answers_of(failed, tail_of(failed), [made])["b"].error == "no map"
    wrong = given(USER, resume=[{"interruptId": "a", "status": "resolved", "payload": {"yes": True}}])
    with pytest.raises(ValidationFailed):
        answers_of(wrong, tail_of(wrong), [ACTION])


def test_content_of_messages() -> None:
    image = {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png"}}
    parts = {"id": "u2", "role": "user", "content": [{"type": "text", "text": "what is"}, image]}
    users = tail_of(given(USER, parts)).users
    kinds = [block.type for block in content_of(users)]  # type: ignore[union-attr]
    assert kinds == ["text", "text", "image_url"]
    data = {"type": "image", "source": {"type": "data", "value": "eA==", "mimeType": "image/png"}}
    for content in (" ", [data], [{"type": "document", "source": {"type": "url", "value": "https://example.com"}}]):
        with pytest.raises(ValidationFailed, match="content"):
            content_of(tail_of(given({**USER, "content": content})).users)


def test_settings_of_a_run() -> None:
    assert options_of(given(USER, tools=[TOOL], forwardedProps={}, context=[]), CALLER, [TOOL]) is None
    system = {"id": "s", "role": "system", "content": "Be brief."}
    context = [{"description": "The page", "value": "checkout"}]
    own = {**TOOL, "name": "own"}
    options = options_of(
        given(system, USER, tools=[TOOL], context=context, forwardedProps={"temperature": 0.5}), CALLER, [own]
    )
    assert options.instructions == "Be brief.\n\nThe page:\ncheckout"
    assert [tool.name for tool in options.client_tools or ()] == ["show_map", "own"]
    assert options.temperature == 0.5
    for wrong in ({"forwardedProps": {"colour": "red"}}, {"forwardedProps": 7}, {"tools": [{**TOOL, "parameters": 7}]}):
        with pytest.raises(ValidationFailed):
            options_of(given(USER, **wrong), CALLER, [])


def test_visitors_have_the_agents_own_settings() -> None:
    assert options_of(given(USER, tools=[TOOL]), PUBLIC_CALLER, [TOOL]) is None
    system = {"id": "s", "role": "system", "content": "Obey."}
    for asked in (
        given(USER, tools=[TOOL]),
        given(system, USER),
        given(USER, context=[{"description": "x", "value": "y"}]),
        given(USER, forwardedProps={"max_tokens": 9}),
    ):
        with pytest.raises(PermissionDenied):
            options_of(asked, PUBLIC_CALLER, [])
    values = {"threadId": "t", "runId": "r" * 36, "messages": [USER]}
    assert run_input(values, CALLER).thread_id == "t"
    with pytest.raises(ValidationFailed, match="random string"):
        run_input(values, PUBLIC_CALLER)
    assert run_input({**values, "threadId": "t" * 36}, PUBLIC_CALLER)
    with pytest.raises(ValidationFailed):
        run_input({"threadId": "t"}, CALLER)


class Waiting:
    """Turns of a session in which one waits; what was done to them, and what a new one is refused for."""

    def __init__(self, refusal: RateLimited | None = None) -> None:
        self.refusal = refusal
        self.done: list[str] = []

    @asynccontextmanager
    async def submit(self, *_: object, **__: object) -> AsyncIterator[Any]:
        self.done.append("submitted")
        yield SimpleNamespace(command_id=new_id(), follow=self._follow)

    async def _follow(self) -> AsyncGenerator[StreamedEvent | None, None]:
        if self.refusal is not None:
            raise self.refusal
        for _ in range(2):
            yield None
            self.done.append("went on")

    async def cancel(self, _: Write, __: str, turn_id: str) -> None:
        self.done.append(f"cancelled {turn_id}")


async def said_beside_a_wait(turns: Waiting) -> None:
    write = Write(identity=IDENTITY, correlation_id="label")
    runs = Runs(door=SimpleNamespace(turns=turns), caller=CALLER, write=write, agent_key="shop", headers={})  # type: ignore[arg-type]
    action = OpenAction.model_construct(action_id="a", kind="tool_result", turn_id="waiting")
    thread = Thread(new_id(), [action], [], "waiting")
    message = UserMessage.model_validate(USER)
    async with runs._submitted(given(USER), thread, [message]) as turn:
        async for _ in turn.events:
            pass


async def test_a_wait_ends_once_the_turn_in_its_place_is_accepted() -> None:
    turns = Waiting()
    await said_beside_a_wait(turns)
    assert turns.done == ["submitted", "cancelled waiting", "went on", "went on"]


async def test_a_refused_message_leaves_the_wait_as_it_is() -> None:
    turns = Waiting(RateLimited("later"))
    with pytest.raises(RateLimited):
        await said_beside_a_wait(turns)
    assert turns.done == ["submitted"]

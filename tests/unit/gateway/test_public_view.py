"""A public principal gets the conversation through every door, and nothing of how it is made."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from libs.contracts.citations import Citation
from libs.contracts.errors import ErrorDetail, ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandRejected, Event, public_name
from libs.contracts.registry import published_messages
from libs.contracts.replies import Reply, ToolCallRecord, Usage
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.sessions import CreateSession, SessionCreated
from libs.contracts.resources.turns import (
    ExecuteTurn,
    RequiredAction,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnActionRequired,
    TurnActionResolved,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnStarted,
)
from libs.contracts.wire_examples import examples_of
from services.gateway.domain.public_view import public_event
from services.gateway.entrypoints.rest import session_socket
from tests.support.gateway import Gateway, Sent
from tests.support.public_agents import AGENT_ID, SHOP, connect
from tests.unit.gateway.test_chat_completions import CONFIGURATION
from tests.unit.gateway.test_execute import PATH, SESSION, STREAM
from tests.unit.gateway.test_session_socket import happen, opened

pytestmark = pytest.mark.virtual_time
IDENTITY = Identity(company_id="company-1", user_id="user-1", key_id="key-1", scopes=frozenset())
SECRETS = ("10.0.0.9", "ledger_lookup", "payroll", "openai:gpt", "25.37", "user-of-the-company", "47110815")
ERROR = ErrorInfo(
    type=ErrorKind.MODEL,
    message="openai:gpt cannot be reached at 10.0.0.9:443",
    details=[ErrorDetail(loc=["model"], type="model", message="10.0.0.9 is away")],
)
SPENT = ErrorInfo(type=ErrorKind.BUDGET, message="cost 25.37 of 1", details=ERROR.details)
NEUTRAL = "The assistant can't answer right now. Please try again later."
ATTRIBUTION = {"model": "openai:gpt", "user_id": "user-of-the-company", "key_id": "user-of-the-company"}


def session_of(sent: Sent) -> str:
    assert isinstance(sent.command, ExecuteTurn)
    return sent.command.session_id


def told(sent: Sent) -> Iterable[Event]:
    turn = {"session_id": session_of(sent), "turn_id": sent.command_id}
    call = {**turn, "step": 1, "call_id": "c", "name": "ledger_lookup"}
    asked = RequestedToolCall(id="c", name="ledger_lookup", arguments={"of": "payroll"})
    action = RequiredAction(action_id="a", kind="approval", tool_call=asked, expires_at="2030-01-01T00:00:00.000000Z")
    yield TurnStarted(**turn, attempt=1, user_message_id="m1")
    yield ToolCallStarted(**call, arguments={"of": "payroll"})
    yield TurnActionRequired(**turn, step=1, action=action)
    yield TurnActionResolved(
        **turn, action_id="a", kind="approval", call_id="c", decision="approve", by="user-of-the-company"
    )
    yield ToolCallCompleted(**call, output="payroll 47110815")
    yield ToolCallFailed(**call, reason="10.0.0.9 refuses")


def answered(sent: Sent) -> Event:
    record = ToolCallRecord(id="c", name="ledger_lookup", arguments={}, status="completed", output="payroll 47110815")
    citation = Citation(file_name="handbook.md", passage="Dogs travel on a lead.")
    return TurnCompleted(
        message_id="m2",
        response=Reply(content="Hello.", tool_calls=[record], citations=[citation]),
        correlation_id=sent.correlation_id,
        session_id=session_of(sent),
        turn_id=sent.command_id,
        user_message_id="m1",
        usage=Usage(input_tokens=47110815, cost="25.37"),
        config_hash="abc",
        warnings=["10.0.0.9 was slow"],
        **ATTRIBUTION,
    )


def broken(sent: Sent) -> Event:
    usage = Usage(cost="25.37")
    return TurnFailed(session_id=session_of(sent), turn_id=sent.command_id, error=ERROR, usage=usage, **ATTRIBUTION)


def refused(_: Sent) -> Event:
    return CommandRejected(error=SPENT)


async def public_principal(public: Gateway) -> dict[str, str]:
    """The query of a connection, whose visitor asks from here on."""
    connection = await connect(public)
    public.client.headers.pop("x-api-key")
    public.client.headers["Origin"] = SHOP
    return {"connection_key": connection.key}


def check(shown: str) -> None:
    assert not [secret for secret in SECRETS if secret in shown], shown


async def test_a_reply_is_shown_without_what_it_took(public: Gateway) -> None:
    key = await public_principal(public)
    public.bus.upstream = lambda sent: [*told(sent), answered(sent)]
    answer = await public.client.post(PATH, params=key, json={"content": "Hi"})
    check(answer.text)
    reply = answer.json()["response"]
    assert (reply["content"], reply["citations"][0]["file_name"]) == ("Hello.", "handbook.md")
    streamed = await public.client.post(PATH, params=key, json={"content": "Hi"}, headers=STREAM)
    check(streamed.text)
    assert "Hello." in streamed.text
    assert streamed.text.count("event: turn.tool_call") == 3


@pytest.mark.parametrize("end", [broken, refused])
async def test_a_failure_is_told_in_neutral_words_with_a_reference(public: Gateway, end: Any) -> None:
    key = await public_principal(public)
    public.bus.upstream = lambda sent: [end(sent)]
    answer = await public.client.post(PATH, params=key, json={"content": "Hi"})
    check(answer.text)
    error = answer.json()["error"]
    assert error["message"] == NEUTRAL
    assert error["correlation_id"] == answer.headers["x-correlation-id"]
    assert "details" not in error
    streamed = await public.client.post(PATH, params=key, json={"content": "Hi"}, headers=STREAM)
    check(streamed.text)
    assert "can't answer right now" in streamed.text


async def test_a_key_of_the_company_is_told_why(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [broken(sent)]
    answer = await public.client.post(PATH, json={"content": "Hi"})
    assert answer.json()["error"]["message"] == ERROR.message


async def test_a_turn_is_shown_without_the_call_that_waits_for_a_person(public: Gateway) -> None:
    key = await public_principal(public)
    action = {"action_id": "a", "kind": "approval", "expires_at": "2030-01-01T00:00:00.000000Z"}
    approval = {"id": "c", "name": "ledger_lookup", "arguments": {"of": "payroll"}}
    order = {"id": "d", "name": "order", "arguments": {}}
    waiting = {
        "turn_id": AGENT_ID, "session_id": SESSION, "status": "waiting", "attempt": 1, "position": 1,
        "correlation_id": "label", "user_message_id": "m1", "created_at": "2030-01-01T00:00:00.000000Z",
        "usage": {"cost": "25.37"}, "toolsets": [{"name": "payroll", "version": 1}], "error": ERROR.model_dump(),
        "required_actions": [{**action, "tool_call": approval}, {**action, "kind": "tool_result", "tool_call": order}],
    }  # fmt: skip
    path = f"/sessions/{SESSION}/turns/{AGENT_ID}"
    public.upstreams.answers["GET", "runtime", f"/internal{path}"] = (200, waiting)
    answer = await public.client.get(f"/runtime/{SESSION}/turns/{AGENT_ID}/", params=key)
    check(answer.text)
    assert [each["tool_call"]["name"] for each in answer.json()["required_actions"]] == ["tool", "order"]


async def test_nor_is_the_call_that_an_earlier_turn_waits_for(public: Gateway) -> None:
    key = await public_principal(public)
    action = {"action_id": "a", "kind": "approval", "expires_at": "2030-01-01T00:00:00.000000Z"}
    approval = {"id": "c", "name": "ledger_lookup", "arguments": {"of": "payroll"}}
    blocked_by = {"turn_id": "earlier", "required_actions": [{**action, "tool_call": approval}]}
    public.bus.upstream = lambda sent: [
        TurnQueued.model_validate(
            {
                "session_id": SESSION, "turn_id": sent.command_id, "position": 1, "user_message_id": "m1",
                "blocked_by": blocked_by,
            }
        )
    ]  # fmt: skip
    answer = await public.client.post(PATH, params=key, json={"content": "Hi"})
    check(answer.text)
    assert answer.json()["blocked_by"]["turn_id"] == "earlier"
    queued = TurnQueued(session_id=SESSION, turn_id="t", position=1, user_message_id="m1", blocked_by=blocked_by)  # type: ignore[arg-type]
    check(public_event("turn.queued", queued.encode()).decode())


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_events_are_shown_without_what_they_tell_of_the_company(public: Gateway, order: str) -> None:
    connection = await connect(public)
    command = ExecuteTurn(session_id=SESSION, content="Hi")
    sent = Sent(command, "t", "label", IDENTITY, None)
    for event in [*told(sent), answered(sent), broken(sent)]:
        public.timeline.add(
            type=public_name(event.TYPE), data=event.encode(), session_id=SESSION, owner_id=connection.id, turn_id="t"
        )
    public.timeline.add(type="budget.exceeded", data=b'{"cost": "25.37"}', session_id=SESSION, owner_id=connection.id)
    public.client.headers.pop("x-api-key")
    query = {"connection_key": connection.key, "session_id": SESSION, "order": order}
    page = await public.client.get("/events/", params=query, headers={"Origin": SHOP})
    check(page.text)
    assert len(page.json()["events"]) == 9


async def test_a_socket_shows_no_more(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_socket, "_SUBSCRIBE_SECONDS", 0.0)
    public.upstreams.answers["GET", "runtime", f"/internal/sessions/{SESSION}"] = (200, {"session_id": SESSION})
    connection = await connect(public)
    query = f"connection_key={connection.key}"
    async with opened(public, query=query, origin=SHOP, x_api_key="") as socket:
        socket.send(type="execute", content="Hi")
        sent = await public.until_sent()
        for event in [*told(sent), answered(sent)]:
            happen(public, sent, event)
        await socket.until(lambda it: "turn.completed" in it.names)
        public.bus.upstream = lambda sent: [refused(sent)]
        socket.send(type="execute", content="Hi")
        await socket.until(lambda it: "error" in it.names)
        check(orjson.dumps(socket.messages).decode())
        assert socket.names.count("turn.tool_call.started") == 1


@pytest.mark.parametrize(("end", "says"), [(answered, "Hello."), (broken, NEUTRAL), (refused, NEUTRAL)])
async def test_a_run_of_ag_ui_shows_no_more(public: Gateway, end: Any, says: str) -> None:
    key = await public_principal(public)
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, CONFIGURATION)

    def upstream(sent: Sent) -> Iterable[Event]:
        if not isinstance(sent.command, CreateSession):
            return [end(sent)] if end is refused else [*told(sent), end(sent)]
        opened = sent.command.session_id
        messages = {"messages": [], "total": 0, "has_more": False}
        public.upstreams.answers["GET", "runtime", f"/internal/sessions/{opened}/messages"] = (200, messages)
        return [SessionCreated(session_id=opened, config_hash="abc", owner_id="user-of-the-company", agent_id=AGENT_ID)]

    public.bus.upstream = upstream
    message = {"id": "1", "role": "user", "content": "Hi"}
    run = {"threadId": new_id(), "runId": new_id(), "messages": [message], "state": {}, "tools": [], "context": []}
    async with public.protocol("/ag-ui") as page:
        answer = await page.post("/ag-ui/support", params=key, json=run, headers={"Origin": SHOP})
    check(answer.text)
    assert says in answer.text


async def test_limits_of_the_company_are_not_told(public: Gateway) -> None:
    key = await public_principal(public)
    refused = ErrorInfo(type=ErrorKind.RATE_LIMIT, message="47110815 turns wait", details=ERROR.details)
    public.bus.upstream = lambda _: [CommandRejected(error=refused)]
    answer = await public.client.post(PATH, params=key, json={"content": "Hi"})
    assert answer.status_code == 429
    check(answer.text)
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("name", published_messages())
def test_every_event_has_a_public_view(name: str) -> None:
    """Events without a public view show their ids alone."""
    for example in examples_of(name):
        shown = orjson.loads(public_event(public_name(name), orjson.dumps(example["payload"])))
        for hidden in ("user_id", "key_id", "by", "model", "problems", "output", "warnings", "platform_file_id"):
            assert not shown.get(hidden), hidden
        assert not shown.get("usage", {})
        assert "owner_id" not in shown


def test_the_calls_of_the_page_itself_stay() -> None:
    call = ToolCallStarted(session_id="s", turn_id="t", step=1, call_id="c", name="order", arguments={"id": 1})
    assert orjson.loads(public_event("turn.tool_call.started", call.encode()))["name"] == "tool"
    assert public_event("turn.tool_call.started", call.encode(), {"order"}) == call.encode()
    created = SessionCreated(session_id="s", config_hash="abc", owner_id="someone", agent_id="a")
    assert orjson.loads(public_event("session.created", created.encode())) == {"session_id": "s", "config_hash": "abc"}

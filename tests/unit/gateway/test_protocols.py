"""Common ground of the protocols at the root, seen through OpenAI's."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from libs.contracts.errors import Conflict, ErrorKind, ServiceError, invalid_field
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.sessions import CreateSession, SessionCreated
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.entrypoints.door.lifecycle import RequestLifecycleMiddleware
from services.gateway.entrypoints.openai.conventions import SHAPE, error_fields
from services.gateway.use_cases.sessions import Sessions, named_session_id
from tests.support.gateway import Gateway, Sent, rejected
from tests.support.public_agents import stored_agent

AGENT = stored_agent(is_public=False)


@pytest.fixture
async def openai(public: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """Sends the key as OpenAI's clients do."""
    async with public.protocol("/openai/v1") as client:
        yield client


async def test_bearer_takes_an_api_key_at_the_root_and_in_the_public_api(
    public: Gateway, openai: httpx.AsyncClient
) -> None:
    public.upstreams.answers["GET", "registry", "/internal/agents"] = (200, [AGENT])
    listed_models = [{"name": "builtin:extractive"}]
    providers = [{"configured": True, "models": listed_models}, {"configured": False, "models": [{"name": "x:y"}]}]
    public.upstreams.answers["GET", "runtime", "/internal/models"] = (200, {"providers": providers})
    listed = await openai.get("/openai/v1/models")
    assert listed.status_code == 200, listed.text
    assert [each["id"] for each in listed.json()["data"]] == ["support", "builtin:extractive"]
    assert listed.headers["x-request-id"] == listed.headers["x-correlation-id"]
    public.upstreams.answers["GET", "runtime", "/internal/sessions"] = (200, {})
    transport = httpx.ASGITransport(public.api.application)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=openai.headers) as native:
        assert (await native.get("/api/v1/sessions/")).status_code == 200


async def test_errors_have_the_shape_of_the_protocol(openai: httpx.AsyncClient) -> None:
    wrong = await openai.get("/openai/v1/models", headers={"Authorization": "Bearer aes_" + "x" * 43})
    assert wrong.status_code == 401
    assert wrong.json()["error"]["code"] == "invalid_api_key"
    assert set(wrong.json()["error"]) == {"message", "type", "param", "code"}
    unknown = await openai.get("/openai/v1/models/nobody")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "invalid_request_error")
    assert (await openai.get("/openai/v1/nothing")).json()["error"]["code"] == "not_found"
    wrong_method = await openai.post("/openai/v1/models")
    assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (None, "n must be 1."),
        ("n=1", "n must be 1."),
        ("remove it", "n must be 1. Remove it."),
        ("did you mean 'm'?", "n must be 1. Did you mean 'm'?"),
        ("'m' is allowed", "n must be 1. 'm' is allowed."),
    ],
)
def test_a_message_ends_with_the_hint(hint: str | None, message: str) -> None:
    problem = invalid_field(["n"], "must be 1", hint=hint)
    info = problem.info().model_copy(update={"message": "n must be 1."})
    assert error_fields(info)["message"] == message


def write_of(public: Gateway) -> Write:
    key = public.key
    identity = Identity(company_id=key.company_id, user_id=key.user_id, key_id=key.id, scopes=key.scopes)
    return Write(identity=identity, correlation_id="label")


def sessions_of(public: Gateway) -> Sessions:
    """The use cases of sessions. The registry knows every agent."""
    configuration = {"agent_config": {}, "config_hash": "0", "agent_id": AGENT["id"]}
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, configuration)
    sessions: Sessions = public.api.application.state.door.sessions
    return sessions


def created(sent: Sent) -> list[SessionCreated]:
    assert isinstance(sent.command, CreateSession)
    return [SessionCreated(session_id=sent.command.session_id, config_hash="0")]


async def test_two_first_requests_with_a_name_open_one_session(public: Gateway) -> None:
    public.bus.upstream = created
    open_named = sessions_of(public).open_named
    write = write_of(public)
    first, second, other = await asyncio.gather(
        open_named(write, "support", "thread 1"),
        open_named(write, "support", "thread 1"),
        open_named(write, "support", "thread 2"),
    )
    assert first == second == named_session_id(write.identity, "support", "thread 1")
    assert first != named_session_id(write.identity.model_copy(update={"user_id": "b"}), "support", "thread 1")
    assert is_id(first)
    assert other != first
    # The command's id follows from the session's: the runtime's inbox knows a repeat.
    assert len({sent.command_id for sent in public.bus.sent}) == 2
    assert not {sent.command_id for sent in public.bus.sent} & {first, other}


@pytest.mark.parametrize("kind", [ErrorKind.TIMEOUT, ErrorKind.QUOTA, ErrorKind.UNAVAILABLE])
async def test_a_name_that_was_refused_for_a_while_is_opened_later(public: Gateway, kind: ErrorKind) -> None:
    public.bus.upstream = lambda _: [rejected(kind, "not now")]
    open_named, write = sessions_of(public).open_named, write_of(public)
    with pytest.raises(ServiceError, match="not now"):
        await open_named(write, "support", "thread 1")

    public.bus.upstream = created
    opened = await open_named(write, "support", "thread 1")
    assert opened == named_session_id(write.identity, "support", "thread 1")
    refused, renewed = public.bus.sent
    assert refused.command_id != renewed.command_id


async def test_of_repeats_after_a_refusal_the_one_that_comes_second_finds_the_session(public: Gateway) -> None:
    write = write_of(public)
    session_id = named_session_id(write.identity, "support", "thread 1")

    def answer(_: Sent) -> list[CommandRejected]:
        # Meanwhile another repeat has opened it.
        public.upstreams.answers["GET", "runtime", f"/internal/sessions/{session_id}"] = (200, {})
        return [rejected(ErrorKind.CONFLICT, "there is, or was, a session with this ID")]

    public.bus.upstream = answer
    assert await sessions_of(public).open_named(write, "support", "thread 1") == session_id


async def test_a_name_whose_session_was_deleted_is_a_conflict(public: Gateway) -> None:
    public.bus.upstream = lambda _: [rejected(ErrorKind.CONFLICT, "there is, or was, a session with this ID")]
    with pytest.raises(Conflict):
        await sessions_of(public).open_named(write_of(public), "support", "thread 1")


def test_parts_of_a_write_are_recorded_each_for_itself(public: Gateway) -> None:
    request = IdempotentRequest(
        company_id="c", principal_id="u", method="POST", path="/openai/v1/responses", key="1", body_hash=b""
    )
    whole = replace(write_of(public), request=request)
    parts = [whole.part(name).request for name in ("session", "turn")]
    assert [part and part.path for part in parts] == ["/openai/v1/responses#session", "/openai/v1/responses#turn"]


async def test_a_stream_that_breaks_ends_with_an_error_in_the_protocols_shape(public: Gateway) -> None:
    sent: list[dict[str, object]] = []

    async def application(scope: object, receive: object, send: object) -> None:
        await send({  # type: ignore[operator]
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
        })  # fmt: skip
        raise ServiceError("It broke.")

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    middleware = RequestLifecycleMiddleware(application, public.api.in_flight, SHAPE)  # type: ignore[arg-type]
    await middleware({"type": "http", "method": "GET", "headers": []}, receive, send)  # type: ignore[arg-type]
    assert sent[-1]["body"] == (
        b'event: error\ndata: {"type":"error","error":{"message":"It broke.","type":"server_error","param":null,'
        b'"code":"internal_error"}}\n\n'
    )

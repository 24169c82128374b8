"""Requests that meet passing problems are repeated, and never carried out twice."""

import contextlib
from typing import Any

import aes_client
import httpx
import pytest
from aes_client import RetryPolicy, ValidationError
from aes_client.flows import NeverConnected
from aes_client.models import ErrorDetail

from libs.contracts.errors import ErrorKind
from tests.support.client_service import AT_ONCE, FakeService, blocking, error

COLLECTION = {
    "id": "c1",
    "name": "n",
    "description": "",
    "status": "pending",
    "progress": 0,
    "data_source_count": 0,
    "total_size": 0,
    "created_at": "2026-03-01T09:30:00.000000Z",
    "updated_at": "2026-03-01T09:30:00.000000Z",
}
PASSING = [
    httpx.ConnectError("refused"),
    httpx.ReadError("reset"),
    httpx.ReadTimeout("silence"),
    httpx.RemoteProtocolError("ended"),
    error(429, "rate_limit_error", retry_after=0),
    error(503, "service_unavailable", retry_after=0),
    error(504, "timeout_error"),
    httpx.Response(502, text="<html>a proxy</html>"),
]


def keys(requests: list[httpx.Request]) -> set[str]:
    return {each.headers["idempotency-key"] for each in requests}


@pytest.mark.parametrize("problem", PASSING, ids=lambda each: str(getattr(each, "status_code", type(each).__name__)))
def test_a_passing_problem_is_overcome_with_one_key(client: Any, service: FakeService, problem: Any) -> None:
    service.on("POST", "/collections/", problem, problem, COLLECTION)

    assert client.collections.create(name="n").id == "c1"
    sent = service.calls("POST", "/collections/")
    assert len(sent) == 3
    assert len(keys(sent)) == 1
    assert {each.content for each in sent} == {b'{"name":"n"}'}


def test_two_calls_have_two_keys(client: Any, service: FakeService) -> None:
    service.on("POST", "/collections/", COLLECTION)
    client.collections.create(name="n")
    client.collections.create(name="n")
    assert len(keys(service.requests)) == 2


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_every_error_of_the_service_has_a_class(client: Any, service: FakeService, kind: ErrorKind) -> None:
    details = [{"loc": ["body", "name"], "type": "missing", "message": "is missing", "hint": None}]
    service.on("GET", "/collections/c1/", error(418, kind, details=details, correlation_id="c"))

    with pytest.raises(aes_client.ApiError) as raised:
        client.collections.get("c1")
    assert raised.type is not aes_client.ApiError
    assert getattr(aes_client, raised.type.__name__) is raised.type
    found = raised.value
    assert (found.type, found.status, found.correlation_id) == (kind, 418, "c")
    assert str(found) == f"a {kind}\n  body.name: is missing"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(422, "validation_error"), (404, "not_found_error"), (409, "conflict_error"), (502, "model_error")],
)
def test_a_final_refusal_is_not_repeated(client: Any, service: FakeService, status: int, kind: str) -> None:
    service.on("POST", "/collections/", error(status, kind))
    with pytest.raises(aes_client.ApiError):
        client.collections.create(name="n")
    assert len(service.requests) == 1


def test_an_error_type_of_a_newer_service_is_an_api_error(client: Any, service: FakeService) -> None:
    service.on("GET", "/me/", error(400, "lunar_error"))
    with pytest.raises(aes_client.ApiError) as raised:
        client.me()
    assert raised.value.type == "lunar_error"


def test_a_used_up_budget_is_not_waited_for(client: Any, service: FakeService) -> None:
    service.on("GET", "/me/", error(429, "budget_exceeded", retry_after=1))
    with pytest.raises(aes_client.BudgetExceededError):
        client.me()
    assert len(service.requests) == 1


def test_it_gives_up_in_the_end(client: Any, service: FakeService) -> None:
    service.on("GET", "/me/", httpx.ReadError("reset"))
    told = "http://service didn't respond to GET /me/, tried 8 times: reset"
    with pytest.raises(aes_client.ConnectionFailed, match=told):
        client.me()
    assert len(service.requests) == 8


@pytest.mark.parametrize(
    ("problem", "attempts"), [(httpx.ConnectError("refused"), 5), (httpx.ConnectTimeout("silence"), 1)]
)
def test_where_nothing_has_ever_answered_it_gives_up_soon(
    client: Any, service: FakeService, problem: Exception, attempts: int
) -> None:
    service.on("POST", "/collections/", problem)
    with pytest.raises(aes_client.ConnectionFailed, match=f"^http://service didn't respond to .*, tried .*: {problem}"):
        client.collections.create(name="n")
    assert len(service.requests) == attempts


def test_a_stream_begins_within_seconds_or_not_at_all(client: Any, service: FakeService) -> None:
    service.on("GET", "/events/", httpx.ConnectError("refused"))
    with pytest.raises(aes_client.ConnectionFailed, match="refused"):
        next(iter(client.events.follow()))
    assert len(service.requests) == 5


@pytest.mark.parametrize("answer", [COLLECTION, error(404, "not_found_error")], ids=["success", "refusal"])
def test_a_service_that_has_answered_is_waited_for(client: Any, service: FakeService, answer: Any) -> None:
    service.on("GET", "/collections/c1/", answer)
    with contextlib.suppress(aes_client.NotFoundError):
        client.collections.get("c1")
    service.on("POST", "/collections/", *[httpx.ConnectError("refused")] * 7, COLLECTION)

    assert client.collections.create(name="n").id == "c1"
    assert len(keys(service.calls("POST", "/collections/"))) == 1


def _chances(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """The random part of pauses is this share of the most that it can be."""
    monkeypatch.setattr("aes_client.retries.random.uniform", lambda least, most: least + share * (most - least))


@pytest.mark.parametrize(("share", "seconds"), [(0.0, 3.75), (1.0, 7.5)])
def test_a_first_contact_outlasts_a_restart_of_the_gateway_and_takes_seconds(
    monkeypatch: pytest.MonkeyPatch, share: float, seconds: float
) -> None:
    _chances(monkeypatch, share)
    refused = NeverConnected(httpx.ConnectError("refused", request=httpx.Request("GET", "http://service")))
    pauses = [RetryPolicy().pause_after(failures, refused) for failures in range(1, 6)]
    assert pauses[4] is None
    assert sum(filter(None, pauses)) == seconds
    patient = RetryPolicy(retries=30, first_contact=30)
    assert patient.pause_after(30, refused) is not None
    assert patient.pause_after(31, refused) is None


def test_a_message_has_no_password_of_the_address(service: FakeService) -> None:
    service.on("GET", "/me/", httpx.ConnectError("refused"))
    http = httpx.Client(transport=httpx.MockTransport(service))
    client = aes_client.Client("http://ada:secret@service:8080", "aes_key", retries=AT_ONCE, http=http)
    with pytest.raises(aes_client.ConnectionFailed, match=r"^http://service:8080 didn't respond"):
        client.me()


def test_a_long_retry_after_is_not_sat_out(client: Any, service: FakeService) -> None:
    service.on("GET", "/me/", error(429, "rate_limit_error", retry_after=3600))
    with pytest.raises(aes_client.RateLimitError) as raised:
        client.me()
    assert raised.value.retry_after == 3600
    assert len(service.requests) == 1


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_pauses_grow_vary_and_respect_retry_after(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    _chances(monkeypatch, share)
    policy = RetryPolicy(retries=6, first=1.0, longest=8.0)
    for failures, backoff in ((1, 1), (2, 2), (3, 4), (4, 8), (6, 8)):
        assert policy.pause(failures) == pytest.approx(backoff * (1 + share) / 2)
    assert policy.pause(7) is None
    assert policy.pause(1, 5) == pytest.approx(5 + (1 + share) / 4)


def test_a_tool_that_may_have_run_is_not_called_again(client: Any, service: FakeService) -> None:
    place = "/toolsets/shop/tools/refund/call/"
    service.on("POST", place, httpx.ConnectError("refused"), httpx.ReadError("reset"))
    with pytest.raises(aes_client.ConnectionFailed):
        client.toolsets.call("shop", "refund", {"order": 1})
    assert len(service.requests) == 2


def test_a_deletion_whose_answer_was_lost_is_done_when_there_is_nothing_any_more(
    client: Any, service: FakeService
) -> None:
    service.on("DELETE", "/api-keys/k/", httpx.ReadError("reset"), error(404, "not_found_error"))
    assert client.api_keys.revoke("k") is None
    service.on("DELETE", "/api-keys/unknown/", httpx.ConnectError("refused"), error(404, "not_found_error"))
    with pytest.raises(aes_client.NotFoundError):
        client.api_keys.revoke("unknown")


def test_an_answer_of_something_else_is_said_to_be_one(client: Any, service: FakeService) -> None:
    service.on("GET", "/me/", httpx.Response(200, text="<html>hello</html>"))
    with pytest.raises(aes_client.UnexpectedResponse, match="/api/v1/me/ returned 200"):
        client.me()


def test_ids_stay_in_their_place(service: FakeService) -> None:
    client = blocking(service)
    with pytest.raises(aes_client.NotFoundError):
        client.files.get("../me")
    assert service.requests[0].url.raw_path == b"/api/v1/files/..%2Fme/"
    with pytest.raises(ValueError, match="file_id is empty"):
        client.files.get("")


def test_the_address_and_the_credential_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AES_BASE_URL", raising=False)
    monkeypatch.delenv("AES_API_KEY", raising=False)
    with pytest.raises(aes_client.NotConfigured, match=r"service URL is missing. .*AES_BASE_URL"):
        aes_client.Client()
    with pytest.raises(aes_client.NotConfigured, match="Invalid service URL 'service:8080'"):
        aes_client.AsyncClient("service:8080")
    monkeypatch.setenv("AES_BASE_URL", "http://service/api/v1/")
    with pytest.raises(aes_client.NotConfigured, match=r"AES_API_KEY.*\.aes/development-key") as missing:
        aes_client.Client()
    # Programs that caught the former error still do.
    assert isinstance(missing.value, ValueError)
    monkeypatch.setenv("AES_API_KEY", "aes_1")
    service = FakeService()
    http = httpx.Client(transport=httpx.MockTransport(service))
    for client in (aes_client.Client(http=http), aes_client.Client(http=http, token="t")):
        with pytest.raises(aes_client.NotFoundError):
            client.me()
    with_key, with_token = service.requests
    assert str(with_key.url) == "http://service/api/v1/me/"
    assert with_key.headers["x-api-key"] == "aes_1"
    assert with_token.headers["authorization"] == "Bearer t"
    assert "x-api-key" not in with_token.headers


def detail(message: str, *loc: str) -> ErrorDetail:
    return ErrorDetail(loc=list(loc), type="x", message=message)


def test_a_problem_that_the_message_names_is_not_said_twice() -> None:
    message = "Invalid body: name: must not be blank (and 1 more)."
    error = ValidationError(message, details=[detail("must not be blank", "name"), detail("add this field", "model")])
    assert str(error) == f"{message}\n  model: add this field"

"""Errors and correlation ids on HTTP, as every service renders them."""

import logging
import time
from collections.abc import AsyncIterator

import httpx
import psycopg
import pytest
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict

from libs.contracts.errors import (
    Conflict,
    ErrorDetail,
    ErrorInfo,
    ErrorKind,
    NotFound,
    RateLimited,
    ServiceUnavailable,
    ValidationFailed,
    error_from,
)
from libs.eventing import IdentitySigner
from libs.service_defaults import Caller
from libs.service_defaults.errors import STATUSES, install_error_handlers
from libs.service_defaults.observed_requests import ObservedRequests
from libs.tracing import bind_correlation_id, current_correlation_id
from tests.support.command_records import ALICE, SIGNING_KEY

SIGNER = IdentitySigner(SIGNING_KEY)
PROBLEMS: dict[str, Exception] = {
    "conflict": Conflict("taken"),
    "missing": NotFound("gone"),
    "limited": RateLimited("slow down", retry_after=7),
    "unavailable": ServiceUnavailable("later"),
    "invalid": ValidationFailed("no", details=[ErrorDetail(loc=["a", 0], type="t", message="m", hint="h")]),
    "bug": RuntimeError("secret details"),
    "database": psycopg.OperationalError("secret host"),
    "teapot": HTTPException(418, "short and stout"),
}


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int


def application() -> FastAPI:
    app = FastAPI()
    app.state.signer = SIGNER
    install_error_handlers(app)
    app.add_middleware(ObservedRequests, service="test")

    @app.get("/fails/{name}")
    async def fails(name: str) -> None:
        raise PROBLEMS[name]

    @app.get("/kinds/{kind}")
    async def kinds(kind: ErrorKind) -> None:
        raise error_from(ErrorInfo(type=kind, message="m"))

    @app.get("/label")
    async def label(rename: str | None = None) -> str | None:
        if rename:
            bind_correlation_id(rename)
        return current_correlation_id()

    @app.get("/me")
    async def me(identity: Caller) -> str:
        return identity.user_id

    @app.post("/things")
    async def things(thing: Thing) -> int:
        return thing.size

    return app


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application())
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("conflict", 409, "conflict_error"),
        ("missing", 404, "not_found_error"),
        ("limited", 429, "rate_limit_error"),
        ("unavailable", 503, "service_unavailable"),
        ("invalid", 422, "validation_error"),
        ("bug", 500, "internal_error"),
        ("database", 503, "service_unavailable"),
    ],
)
async def test_every_problem_has_one_shape_and_carries_the_label(
    http: httpx.AsyncClient, name: str, status: int, kind: str
) -> None:
    response = await http.get(f"/fails/{name}", headers={"X-Correlation-ID": "my-label"})
    error = response.json()["error"]
    assert response.status_code == status
    assert (error["type"], error["correlation_id"]) == (kind, "my-label")
    assert response.headers["X-Correlation-ID"] == "my-label"
    assert "secret" not in response.text
    assert "retry_after" not in error


async def test_details_are_part_of_the_error(http: httpx.AsyncClient) -> None:
    error = (await http.get("/fails/invalid")).json()["error"]
    assert error["details"] == [{"loc": ["a", 0], "type": "t", "message": "m", "hint": "h"}]
    assert "details" not in (await http.get("/fails/conflict")).json()["error"]


async def test_when_to_try_again(http: httpx.AsyncClient) -> None:
    assert (await http.get("/fails/limited")).headers["Retry-After"] == "7"
    assert int((await http.get("/fails/unavailable")).headers["Retry-After"]) > 0
    assert int((await http.get("/fails/database")).headers["Retry-After"]) > 0
    assert "Retry-After" not in (await http.get("/fails/conflict")).headers


@pytest.mark.parametrize("kind", sorted(set(STATUSES) - {ErrorKind.METHOD_NOT_ALLOWED}))
async def test_every_kind_has_its_status(http: httpx.AsyncClient, kind: ErrorKind) -> None:
    response = await http.get(f"/kinds/{kind.value}")
    assert response.status_code == STATUSES[kind]
    assert response.json()["error"]["type"] == kind.value


def test_every_kind_of_error_has_a_status() -> None:
    assert set(STATUSES) == set(ErrorKind)


async def test_errors_of_the_framework_have_the_same_shape(http: httpx.AsyncClient) -> None:
    unknown = await http.get("/nowhere")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")
    assert unknown.json()["error"]["message"] == "There is nothing at this path."
    wrong = await http.delete("/things")
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (405, "method_not_allowed")
    assert wrong.json()["error"]["message"] == "This path doesn't accept this method."
    assert wrong.headers["Allow"] == "POST"


async def test_a_body_that_does_not_fit_is_explained(http: httpx.AsyncClient) -> None:
    response = await http.post("/things", json={"sise": 1})
    error = response.json()["error"]
    assert response.status_code == 422
    found = {detail["type"]: detail for detail in error["details"]}
    assert found["missing"]["loc"][-1] == "size"
    assert found["extra_forbidden"]["loc"][-1] == "sise"
    assert found["extra_forbidden"]["hint"]


async def test_a_bug_is_logged_with_its_traceback(
    http: httpx.AsyncClient, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        await http.get("/fails/bug")
    assert "request.failed" in caplog.text + capsys.readouterr().out


@pytest.mark.parametrize("label", ["a b", "x" * 129, "", "ü", "a/b"])
async def test_a_bad_label_is_refused_and_not_repeated(http: httpx.AsyncClient, label: str) -> None:
    response = await http.get("/label", headers={"X-Correlation-ID": label.encode("latin-1")})
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert response.headers["X-Correlation-ID"] == error["correlation_id"] != label


async def test_a_label_is_made_when_none_is_given(http: httpx.AsyncClient) -> None:
    first, second = [await http.get("/label") for _ in range(2)]
    assert first.headers["X-Correlation-ID"] == first.json()
    assert first.json() != second.json()


async def test_a_label_named_in_the_body_is_answered_with(http: httpx.AsyncClient) -> None:
    response = await http.get("/label", params={"rename": "other"}, headers={"X-Correlation-ID": "mine"})
    assert response.headers["X-Correlation-ID"] == response.json() == "other"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Basic x",
        "Bearer",
        "Bearer " + SIGNER.sign(ALICE),
        "Bearer " + SIGNER.sign(ALICE, expires_at=time.time() - 1),
        "Bearer " + IdentitySigner("x" * 40).sign(ALICE, expires_at=time.time() + 60),
    ],
    ids=["none", "basic", "empty", "a command's", "expired", "forged"],
)
async def test_an_internal_call_needs_a_valid_token(http: httpx.AsyncClient, header: str | None) -> None:
    response = await http.get("/me", headers={"Authorization": header} if header else {})
    assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")


async def test_an_internal_call_is_made_for_its_caller(http: httpx.AsyncClient) -> None:
    token = SIGNER.sign(ALICE, expires_at=time.time() + 60)
    assert (await http.get("/me", headers={"Authorization": f"Bearer {token}"})).json() == "alice"

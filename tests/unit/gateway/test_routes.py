"""Every route of the public API: who may call it, which errors it documents, and that the reference has it."""

import re
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.responses import Response

from libs import tracing
from libs.contracts.identifiers import new_id
from services.gateway.entrypoints.door.callers import anonymous, by_api_key, by_api_key_or_public_key
from services.gateway.entrypoints.door.routes import ALWAYS, RequestBody, public_router
from services.gateway.entrypoints.door.writes import idempotent_write, plain_write
from services.gateway.entrypoints.rest import session_socket, turns
from tests.support.declared_operations import OPERATIONS
from tests.support.gateway import Gateway, error_of

SESSION = new_id()
WITHOUT_CREDENTIAL = {"artifacts.content"}
ANY_SCOPE = {"me.get", "tokens.create"}
"""A valid credential is enough."""
SCOPE_BY_BODY = {"actions.resolve"}
"""The scope that is needed follows from the body."""
SCOPE_BY_VIEW = {"operations.services", "dead_letters.list", "dead_letters.get", "dead_letters.replay"}
"""One of several scopes is needed, and decides what is seen."""
PAGES = {"/api/v1/openapi.json", "/api/v1/asyncapi.json", "/api/v1/docs/", "/api/v1/docs/assets/{name}"}


async def test_every_route_is_an_operation_or_a_page(public: Gateway) -> None:
    routes = public.api.application.routes
    assert [route for route in routes if not isinstance(route, APIRoute)] == [session_socket.route]
    declared = [each.route.path_format for each in OPERATIONS]
    assert {route.path_format for route in routes if isinstance(route, APIRoute)} == {*declared, *PAGES}


def test_every_operation_has_a_scope_or_is_listed_as_one_without() -> None:
    for operation in OPERATIONS:
        if str(operation) in WITHOUT_CREDENTIAL:
            assert (operation.callers, anonymous in operation.dependencies) == ([], True), operation
        else:
            [scopes] = operation.callers
            assert bool(scopes) is (str(operation) not in ANY_SCOPE | SCOPE_BY_BODY | SCOPE_BY_VIEW), operation


def test_nothing_is_read_of_a_request_before_its_caller_is_known() -> None:
    for operation in OPERATIONS:
        order = operation.dependencies
        bodies = [index for index, call in enumerate(order) if isinstance(call, RequestBody)]
        writes = [index for index, call in enumerate(order) if call in (plain_write, idempotent_write)]
        for index in (*bodies, *writes):
            assert {by_api_key, by_api_key_or_public_key} & {*order[:index]}, operation
        assert max(bodies, default=0) <= min(writes, default=len(order)), f"{operation}: hashes no body"


async def test_the_reference_is_public_and_documents_every_operation_with_its_errors(public: Gateway) -> None:
    public.client.headers.pop("x-api-key")
    response = await public.client.get("/openapi.json")
    document = response.json()
    for operation in OPERATIONS:
        described = document["paths"][operation.route.path_format][operation.method.lower()]
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", described["operationId"]), operation
        documented = {int(status) for status in described["responses"]}
        expected = {413, 415, 422} if operation.body is not None else set()
        expected |= {409, 422, 504} if idempotent_write in operation.dependencies else set()
        expected |= {403} if operation.scopes else set()
        assert {*ALWAYS, *expected} <= documented, operation
        assert any(status < 300 for status in documented), operation
    for pointer in set(re.findall(r'"\$ref":"#/([^"]+)"', response.text)):
        place = document
        for part in pointer.split("/"):
            place = place[part]


async def test_the_page_of_the_reference_is_public_and_loads_only_what_the_gateway_serves(public: Gateway) -> None:
    public.client.headers.pop("x-api-key")
    page = await public.client.get("/docs/")
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert assets
    for asset in assets:
        loaded = await public.client.get(f"/docs/{asset}")
        assert (loaded.status_code, asset.startswith("assets/")) == (200, True)
    assert "'self'" in page.headers["content-security-policy"]
    assert "http" not in page.headers["content-security-policy"]
    assert (await public.client.get("/asyncapi.json")).status_code == 200


def test_executing_is_the_first_of_all_routes() -> None:
    assert OPERATIONS[0].route.endpoint is turns.execute
    assert OPERATIONS[0].route.response_model is None


async def test_a_fixed_name_goes_before_an_id_whatever_the_method(public: Gateway) -> None:
    cases: list[Any] = [
        ("GET", "/agent/validate/", "POST"),
        ("DELETE", "/files/bulk/", "POST"),
        ("PATCH", "/knowledge-bases/available-collections/", "GET, HEAD"),
        ("PUT", "/files/bulk-of-it/", "DELETE, GET, HEAD"),
        ("PUT", "/agent/", "GET, HEAD, POST"),
        ("POST", "/docs/", "GET, HEAD"),
    ]
    for method, path, allowed in cases:
        response = await public.client.request(method, path)
        assert (response.status_code, response.headers["allow"]) == (405, allowed)


async def test_nothing_stands_below_a_fixed_name(public: Gateway) -> None:
    assert (await public.client.get("/files/bulk/download/")).json()["error"]["message"] == (
        "There is nothing at this path."
    )


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("GET", f"/sessions/{SESSION}/", {}, id="read"),
        pytest.param("GET", f"/artifacts/{SESSION}/content/", {}, id="link"),
        ("POST", "/files/", {"content": b"--x--\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}}),
        ("POST", "/agent/validate/", {"json": {}}),
    ],
)
async def test_a_request_has_its_span_before_an_upstream_is_asked(
    public: Gateway, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: dict[str, Any]
) -> None:
    asked_before: list[int] = []
    make = tracing.span

    def span(*arguments: Any, **named: Any) -> Any:
        asked_before.append(len(public.upstreams.asked))
        return make(*arguments, **named)

    monkeypatch.setattr(tracing, "span", span)
    monkeypatch.setattr(tracing, "is_on", lambda: True)
    await public.client.request(method, path, **body)
    assert (asked_before[:1], len(public.upstreams.asked)) == ([0], 1)


async def test_a_value_that_fastapi_refuses_is_refused_in_the_shape_of_the_api(public: Gateway) -> None:
    router = public_router("", "Other")

    @router.get("/number/{number}/")
    async def of_number(number: int) -> Response:
        return Response(str(number + 1))

    public.api.application.router.routes.extend(router.routes)
    assert (await public.client.get("/number/1/")).text == "2"
    refused = await public.client.get("/number/x/")
    assert refused.status_code == 422
    assert error_of(refused)["details"][0]["loc"] == ["path", "number"]

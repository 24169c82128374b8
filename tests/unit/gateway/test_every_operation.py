"""Every operation as it is declared: credentials, scopes, IDs, bodies, queries and idempotency keys."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import orjson
import pytest
import pytest_asyncio

from libs.contracts.identifiers import new_id
from libs.contracts.identity import PUBLIC_SCOPES
from services.gateway.domain.accounts import OPERATOR_SCOPES
from services.gateway.entrypoints.door.bodies import ParsedBody, ParsedObject
from services.gateway.entrypoints.door.callers import anonymous
from tests.support.declared_operations import OPERATIONS, Operation
from tests.support.gateway import Gateway, error_of, gateway
from tests.support.public_agents import SHOP, connect

WITH_CREDENTIAL = [each for each in OPERATIONS if anonymous not in each.dependencies]
WITH_BODY = [each for each in OPERATIONS if isinstance(each.body, ParsedBody | ParsedObject)]
# A draft of an agent and a session's configuration are judged by the registry.
JUDGED_BY_MODEL = [each for each in WITH_BODY if isinstance(each.body, ParsedBody)]
WITH_QUERY = [each for each in OPERATIONS if each.query is not None]
LISTS = [each for each in OPERATIONS if each.is_list]
REPEATABLE = [each for each in OPERATIONS if each.is_repeatable]
# No entity has such an ID or name.
NONE: Final = "9.9"
MALFORMED: Final = (
    *(NONE, "%00", "%2e%2e", "..%2f..%2fetc", "%ff%fe", "'%20OR%201=1", "a" * 3000, "%F0%9F%A6%8A"),
    *(f"{{{new_id()}}}", f"{new_id()}%20", new_id().replace("-", ""), new_id().upper()),
)
NOT_FOUND, BAD, INVALID = (404, "not_found_error"), (400, "invalid_request_error"), (422, "validation_error")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Gateway]:
    async with gateway() as made:
        secret, _ = made.keys.issue(scopes=OPERATOR_SCOPES)
        made.client.headers["x-api-key"] = secret
        yield made


@pytest.fixture
def public(running: Gateway) -> Iterator[Gateway]:
    yield running
    assert running.bus.sent == [], "nothing that is refused gets to its owner"


pytestmark = pytest.mark.asyncio(loop_scope="module")


def of(operations: list[Operation]) -> Any:
    return pytest.mark.parametrize("operation", operations, ids=str)


def nowhere(operation: Operation) -> str:
    return operation.at(**dict.fromkeys(operation.parameters, NONE))


async def refused(public: Gateway, expected: tuple[int, str], operation: Operation, path: str = "", **how: Any) -> Any:
    reply = await public.client.request(operation.method, path or nowhere(operation), **how)
    assert (reply.status_code, error_of(reply)["type"]) == expected, (path, how, reply.text)
    return error_of(reply)


@of(WITH_CREDENTIAL)
async def test_it_needs_a_credential(public: Gateway, operation: Operation) -> None:
    for headers in ({"x-api-key": ""}, {"x-api-key": "", "authorization": "Bearer x"}, {"x-api-key": "aes_unknown"}):
        await refused(public, (401, "authentication_error"), operation, headers=headers)


@of([each for each in WITH_CREDENTIAL if each.scopes])
async def test_it_needs_each_of_its_scopes_and_no_other(public: Gateway, operation: Operation) -> None:
    for scope in operation.scopes:
        secret, _ = public.keys.issue(scopes=OPERATOR_SCOPES - {scope})
        error = await refused(public, (403, "permission_error"), operation, headers={"x-api-key": secret})
        assert error["message"] == f"The credential lacks the scope {scope}."
    secret, _ = public.keys.issue(scopes=frozenset(operation.scopes))
    allowed = await public.client.request(operation.method, nowhere(operation), headers={"x-api-key": secret})
    assert allowed.status_code not in (401, 403), allowed.text


@of(WITH_CREDENTIAL)
async def test_it_takes_tokens_and_declares_whether_it_takes_public_keys(public: Gateway, operation: Operation) -> None:
    token = (await public.client.post("/auth/token/")).json()["access_token"]
    bearer = {"x-api-key": "", "authorization": f"Bearer {token}"}
    found = await public.client.request(operation.method, nowhere(operation), headers=bearer)
    assert found.status_code != 401, found.text
    connection = await connect(public)
    page = {"x-api-key": "", "origin": SHOP}
    # Of the whole timeline, a page sees its sessions alone.
    session = f"session_id={new_id()}&" if "session_id" in operation.filters else ""
    path = f"{nowhere(operation)}?{session}connection_key={connection.key}"
    asked = await public.client.request(operation.method, path, headers=page)
    is_open = operation.takes_public_keys and PUBLIC_SCOPES.issuperset(operation.scopes)
    assert (asked.status_code == 403) is not is_open, asked.text
    assert asked.headers["access-control-allow-origin"] == SHOP


# What is put under a name of the caller's own is refused for a name of the wrong form.
@of([each for each in WITH_CREDENTIAL if each.parameters and each.method != "PUT"])
async def test_malformed_ids_are_unknown(public: Gateway, operation: Operation) -> None:
    body = operation.examples[0] if operation.examples else None
    for malformed in MALFORMED:
        for name in operation.parameters:
            path = operation.at(**{**dict.fromkeys(operation.parameters, new_id()), name: malformed})
            await refused(public, NOT_FOUND, operation, path, json=body)


@of(WITH_BODY)
async def test_it_refuses_what_is_no_body(public: Gateway, operation: Operation) -> None:
    body = operation.body
    assert isinstance(body, ParsedBody | ParsedObject)
    cases = [
        (b"{", "application/json", BAD),
        (b"a: [", "application/yaml", BAD),
        (b"{}", "text/plain", (415, "unsupported_media_type")),
        (b"[]", "application/json", INVALID),
        (b"null", "application/json", INVALID),
        (b"just text", "application/yaml", INVALID),
        (b'{"\\u0000": 1}', "application/json", INVALID),
        (b'{"a": 1e999}', "application/json", INVALID),
        (b" " * (body.most_bytes + 1), "application/json", (413, "request_too_large")),
    ]
    if body.request_body["required"]:
        cases.append((b"", "application/json", BAD))
    for content, media_type, expected in cases:
        error = await refused(public, expected, operation, content=content, headers={"content-type": media_type})
        assert error.get("details") or expected != INVALID


@of(JUDGED_BY_MODEL)
async def test_it_names_the_field_that_is_wrong(public: Gateway, operation: Operation) -> None:
    assert operation.examples, "an example of a valid body"
    for example in operation.examples:
        assert operation.documents(example)
        error = await refused(public, INVALID, operation, json={**example, "no_such_field": 1})
        assert ["no_such_field"] in [each["loc"] for each in error["details"]]
        for field, body in broken(example):
            if not operation.documents(body):
                error = await refused(public, INVALID, operation, json=body)
                assert field in named(error), (body, error)


def named(error: dict[str, Any]) -> list[Any]:
    """The fields at the places of an error, and in its words."""
    places = [each for detail in error["details"] for each in detail["loc"]]
    return [*places, *re.findall(r"'(\w+)'", " ".join(detail["message"] for detail in error["details"]))]


def broken(example: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The body without each of its fields, and with each of them null or of another type."""
    for field, value in example.items():
        rest = {name: each for name, each in example.items() if name != field}
        yield field, rest
        yield field, {**rest, field: None}
        yield field, {**rest, field: 7 if isinstance(value, dict | list | str) else {"no": "such"}}


@of(WITH_QUERY)
async def test_it_refuses_unknown_parameters(public: Gateway, operation: Operation) -> None:
    error = await refused(public, INVALID, operation, f"{nowhere(operation)}?no_such_parameter=1")
    [detail] = error["details"]
    assert (detail["loc"], detail["type"]) == (["query", "no_such_parameter"], "extra_forbidden")


@of(LISTS)
async def test_a_list_refuses_pages_out_of_range(public: Gateway, operation: Operation) -> None:
    most = operation.query.model_json_schema()["properties"]["limit"]["maximum"]
    queries = [f"limit={wrong}" for wrong in (0, -1, most + 1, "x", "", "1.5", "1e2", "%00", "%D9%A1", "9" * 25)]
    if "offset" in operation.filters:
        queries += [f"offset={wrong}" for wrong in (-1, "x", "", "1e3", "%D9%A1", "9" * 20)]
    if "after" in operation.filters:
        queries += ["after=", f"after={'x' * 5000}"]
    for query in queries:
        error = await refused(public, INVALID, operation, f"{nowhere(operation)}?{query}")
        assert error["details"][0]["loc"] == ["query", query.partition("=")[0]], query


@of(REPEATABLE)
async def test_it_refuses_malformed_idempotency_keys(public: Gateway, operation: Operation) -> None:
    body: dict[str, Any] = {"files": {"file": b"x"}}
    if operation in WITH_BODY:
        body = {"content": orjson.dumps(operation.examples[0])}
    path = operation.at(**dict.fromkeys(operation.parameters, new_id()))
    for key in (b"", b"k" * 201, "umläut".encode(), b"a\tb"):
        headers = {"idempotency-key": key, **({"content-type": "application/json"} if "content" in body else {})}
        await refused(public, BAD, operation, path, headers=headers, **body)

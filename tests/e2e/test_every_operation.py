"""Every operation on real entities: nothing of another company, lists in pages, and repeats with an idempotency key."""

import base64
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from services.gateway.domain.accounts import ALL_SCOPES
from tests.e2e.api import check_error, unique
from tests.e2e.conftest import make_caller, make_company
from tests.e2e.held_model import HeldModel
from tests.e2e.made_entities import Entities, content_of
from tests.e2e.running_stack import RunningStack
from tests.support.declared_operations import OPERATIONS, Operation

# Dead letters are made on the bus: tests/integration/gateway/test_operations.py.
OF_ENTITIES = [
    each for each in OPERATIONS if each.parameters and each.callers and not str(each).startswith("dead_letters.")
]
OF_A_COMPANY = [
    each
    for each in OPERATIONS
    if each.method == "GET" and each.callers and not each.parameters and ALL_SCOPES.issuperset(each.scopes)
]
LISTS = [each for each in OPERATIONS if each.is_list and "offset" in each.filters and str(each) not in ("usage.get",)]
WITH_CURSOR = [each for each in LISTS if "after" in each.filters]
PRIVATE = {"actions", "agents", "api_keys", "artifacts", "connections", "sessions", "turns", "webhooks"}
"""Resources that belong to a user; the others are the company's."""
REFERENCE = re.compile("_(ids?|key)$")
WITH_REFERENCES = [
    each for each in OPERATIONS if not each.parameters and any(map(REFERENCE.search, each.example_fields))
]
REPEATABLE = [each for each in OPERATIONS if each.is_repeatable]
# Of an artifact that its agent made, and of a toolset of another kind: refused here, each time alike.
REFUSED = {"artifacts.copy_to_platform", "artifacts.remove_from_platform", "toolsets.update"}
# They return the entity in its current state, which changes by itself.
READ_AGAIN = {"artifacts.upload", "knowledge_bases.ingest", "webhooks.redeliver", "webhooks.update"}
NO_CURSORS = ("x", "%00", *(base64.urlsafe_b64encode(text).decode().rstrip("=") for text in (b"[]", b"{}", b'["a",1]')))


def of(operations: list[Operation]) -> Any:
    return pytest.mark.parametrize("operation", operations, ids=str)


def client_of(stack: RunningStack, company: str, name: str, scopes: frozenset[str] = ALL_SCOPES) -> httpx.Client:
    caller = make_caller(stack, company, name, scopes)
    return httpx.Client(
        base_url=f"{stack.base_url}/api/v1", headers={"x-api-key": caller.secret}, timeout=120, trust_env=False
    )


@pytest.fixture(scope="module")
def company(stack: RunningStack) -> str:
    return make_company(stack)


@pytest.fixture(scope="module")
def owner(stack: RunningStack, company: str, model: HeldModel) -> Iterator[Entities]:
    """Three of everything."""
    with client_of(stack, company, "owner") as client:
        entities = Entities(client)
        entities.make_all(3)
        yield entities


@pytest.fixture(scope="module")
def own(stack: RunningStack, model: HeldModel) -> Iterator[Entities]:
    """Entities to change and delete."""
    with client_of(stack, make_company(stack), "writer") as client:
        entities = Entities(client)
        entities.make_all(1)
        yield entities


@pytest.fixture(scope="module")
def stranger(stack: RunningStack) -> Iterator[httpx.Client]:
    with client_of(stack, make_company(stack), "stranger") as client:
        yield client


@pytest.fixture(scope="module")
def bystander(stack: RunningStack) -> Iterator[httpx.Client]:
    """A third company's client. It tries nothing, since refusals are events, too."""
    with client_of(stack, make_company(stack), "bystander") as client:
        yield client


@pytest.fixture(scope="module")
def colleague(stack: RunningStack, company: str) -> Iterator[httpx.Client]:
    """Has no scope for what is private to others in the company."""
    with client_of(stack, company, "colleague", ALL_SCOPES - {"company:read", "company:write"}) as client:
        yield client


def check_nothing_is_found(owner: Entities, other: httpx.Client, operation: Operation) -> None:
    path = owner.path(operation)
    for body in owner.bodies(operation):
        for headers in ({}, {"accept": "text/event-stream"}):
            reply = other.request(operation.method, path, headers=headers, **content_of(body))
            check_error(reply, 404, "not_found_error")


@of([each for each in OF_ENTITIES if each.method != "PUT"])
def test_another_company_finds_nothing(owner: Entities, stranger: httpx.Client, operation: Operation) -> None:
    check_nothing_is_found(owner, stranger, operation)


@of([each for each in OF_ENTITIES if each.resource in PRIVATE])
def test_a_colleague_finds_nothing_that_is_private(
    owner: Entities, colleague: httpx.Client, operation: Operation
) -> None:
    check_nothing_is_found(owner, colleague, operation)


@of([each for each in OF_ENTITIES if len(each.parameters) > 1 and all(map(REFERENCE.search, each.parameters))])
def test_it_is_found_below_its_own_parent_alone(owner: Entities, operation: Operation) -> None:
    parent = operation.parameters[0]
    below = {name: owner.value(operation, name) for name in operation.parameters}
    elsewhere = operation.at(**{**below, parent: owner.named[parent][0]})
    assert elsewhere != operation.at(**below)
    for body in owner.bodies(operation):
        check_error(owner.client.request(operation.method, elsewhere, **content_of(body)), 404, "not_found_error")


@of(WITH_REFERENCES)
def test_another_company_makes_nothing_of_it(owner: Entities, stranger: httpx.Client, operation: Operation) -> None:
    for body in owner.bodies(operation):
        reply = stranger.request(operation.method, owner.path(operation), **content_of(body))
        named = [name for name in body if REFERENCE.search(name)]
        assert not named or reply.status_code in (404, 422) or reply.json()["success"] is False, reply.text


@of([each for each in OF_ENTITIES if each.method == "PUT"])
def test_another_company_puts_its_own_under_the_same_name(
    owner: Entities, stranger: httpx.Client, operation: Operation
) -> None:
    path = owner.path(operation)
    before = owner.client.get(path).json()
    assert stranger.put(path, json=owner.bodies(operation)[0]).status_code == 200
    assert owner.client.get(path).json() == before
    assert stranger.delete(path).status_code == 204
    assert owner.client.get(path).json() == before


# After those who had no right to delete it.
@of([each for each in OF_ENTITIES if each.method == "GET" and each.answer is not None])
def test_its_own_company_finds_it(owner: Entities, operation: Operation) -> None:
    reply = owner.send(operation)
    assert reply.status_code == 200, reply.text


@of(OF_A_COMPANY)
def test_a_list_has_nothing_of_others(
    owner: Entities, bystander: httpx.Client, colleague: httpx.Client, operation: Operation
) -> None:
    own = {*owner.placed.values(), *owner.waiting.values()}
    for other in (bystander, *((colleague,) if operation.resource in PRIVATE else ())):
        reply = other.get(operation.path, params={"limit": 200} if operation.is_list else {})
        assert reply.status_code == 200, reply.text
        assert [each for each in own if each in reply.text] == []


def entries(operation: Operation, page: Any) -> list[Any]:
    """The entries of a page, by what names them."""
    noun = operation.path.rstrip("/").rpartition("/")[2].replace("-", "_")
    found = page if isinstance(page, list) else page[noun]
    keys = [tuple(value for name, value in each.items() if name.endswith(("id", "name", "number"))) for each in found]
    assert len({*map(str, keys)}) == len(keys)
    return keys


@of(LISTS)
def test_pages_are_parts_of_the_whole(owner: Entities, operation: Operation) -> None:
    path = owner.path(operation)
    whole = owner.client.get(path, params={"limit": 200}).json()
    names = entries(operation, whole)
    assert len(names) >= (1 if operation.parameters or str(operation) == "models.list" else 2), whole
    page = owner.client.get(path, params={"limit": 2, "offset": 1}).json()
    assert entries(operation, page) == names[1:3]
    assert entries(operation, owner.client.get(path, params={"offset": 1_000}).json()) == []
    if isinstance(whole, list):
        return
    assert (page["total"], page["has_more"]) == (whole["total"], len(names) > 3)
    if operation in WITH_CURSOR:
        joined, following = [], {}
        while following is not None:
            page = owner.client.get(path, params={"limit": 1, **following}).json()
            joined += entries(operation, page)
            assert page["has_more"] is (page["next"] is not None)
            following = {"after": page["next"]} if page["has_more"] else None
        assert joined == names


@of(WITH_CURSOR)
def test_a_list_refuses_what_is_no_cursor_of_it(owner: Entities, operation: Operation) -> None:
    for cursor in NO_CURSORS:
        reply = owner.client.get(f"{owner.path(operation)}?after={cursor}")
        [detail] = check_error(reply, 422, "validation_error")["details"]
        assert (detail["loc"], detail["type"]) == (["query", "after"], "invalid_cursor")


def another(operation: Operation, body: Any) -> Any:
    """A valid body that says something else; None if there is none."""
    if not isinstance(body, dict):
        return None
    changed = [{**body, name: f"{value}1"} for name, value in body.items() if isinstance(value, str)]
    return next((each for each in (*changed, *operation.examples) if each != body and operation.documents(each)), None)


def outcome(operation: Operation, reply: httpx.Response) -> Any:
    """An answer without what each has for itself: a link's signature, the ID of a request that nothing is kept of."""
    answer = reply.json() if reply.content else {}
    if str(operation) in READ_AGAIN:
        told = {name: answer.get(name) for name in ("id", "artifact_id", "name", "created_at")}
    else:
        told = {name: value for name, value in answer.items() if not name.startswith("url")}
    return reply.status_code, told if reply.is_success else answer["error"]["message"]


@of(REPEATABLE)
def test_a_repeat_has_the_outcome_of_the_first(own: Entities, operation: Operation) -> None:
    entities = own.renewed(operation)
    for body in entities.bodies(operation):
        key = unique("key")
        first, again = [entities.send(operation, body, idempotency_key=key) for _ in range(2)]
        if first.is_success:
            break
        assert outcome(operation, again) == outcome(operation, first)
    if first.is_success and first.content and "secret" in first.json():
        check_error(again, 409, "conflict_error")
        assert first.json()["secret"] not in again.text
    else:
        assert outcome(operation, again) == outcome(operation, first)
    assert first.is_success or str(operation) in REFUSED, first.text
    assert operation.method != "DELETE" or (first.status_code, first.content) == (204, b"")
    if (other := another(operation, body)) is not None:
        error = check_error(entities.send(operation, other, idempotency_key=key), 422, "validation_error")
        assert error["details"][0]["loc"] == ["header", "Idempotency-Key"]

"""Responses that go on after others in a copy of their session, and what stays of it when the turn is refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from libs.contracts.errors import BudgetExceeded, Conflict, ErrorDetail
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.turns import TurnRequest
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.entrypoints.openai.response_request import CreateResponse
from services.gateway.entrypoints.openai.response_turns import ResponseTurns

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

"""Sessions without a turn for as long as their company keeps them are deleted, as if by hand."""

from collections.abc import Callable
from functools import partial

import pytest
from prometheus_client import REGISTRY

from libs.contracts.identity import Identity
from libs.contracts.resources.retention import SetRetention
from libs.contracts.resources.turns import TurnOptions
from libs.eventing import Retention
from services.runtime.adapters.postgres.retention import PostgresRetentionReads
from services.runtime.use_cases.retention import OldSessions, SessionRetention
from tests.support.agent_fakes import calling
from tests.support.runtime_nodes import Node, ObedientModel, person

ADA, EVE = person("ada", "company-a"), person("eve", "company-e")
AGE_SESSIONS = "UPDATE sessions SET created_at = created_at - interval '40 days' WHERE id = ANY(%s) RETURNING id"
AGE_TURNS = """
    UPDATE turns SET finished_at = finished_at - interval '40 days' WHERE session_id = ANY(%s) RETURNING id
"""
Remover = Callable[..., OldSessions]
SERVICE = "tests"


@pytest.fixture
def remover(node: Node) -> Remover:
    reads = PostgresRetentionReads(node.database)

    def remover(*, default: int | None, limit: int = 100) -> OldSessions:
        retention = SessionRetention(reads, default)
        on_removed = partial(Retention(SERVICE).count_removed, "sessions")
        return OldSessions(node.outbox, retention, on_removed=on_removed, limit=limit)

    return remover


async def used(node: Node, caller: Identity) -> str:
    session = await node.create_session(caller)
    await node.ended(await node.execute(session, "hello", caller))
    return session


def removed() -> float:
    labels = {"service": SERVICE, "table": "sessions"}
    return REGISTRY.get_sample_value("aes_purged_rows_total", labels) or 0.0


async def left(node: Node) -> set[str]:
    return {row[0] for row in await node.rows("SELECT id FROM sessions")}


@pytest.mark.parametrize("at_once", [1, 100])
async def test_unused_sessions_go_by_the_days_of_their_company(node: Node, remover: Remover, at_once: int) -> None:
    old, again, young = await used(node, ADA), await used(node, ADA), await used(node, ADA)
    empty, others = await node.create_session(ADA), await used(node, EVE)
    await node.rows(AGE_SESSIONS, [old, empty, again, others])
    await node.rows(AGE_TURNS, [old, again, others])
    await node.ended(await node.execute(again, "still there?", ADA))
    remove, before = remover(default=None, limit=at_once), removed()
    await remove.remove()
    assert await left(node) == {old, empty, again, young, others}
    assert removed() == before

    await node.deliver(SetRetention(session_retention_days=30), ADA)
    await remove.remove()
    assert await left(node) == {again, young, others}
    [event] = await node.rows(
        "SELECT type, owner_id FROM outbox WHERE subject = %s ORDER BY sequence DESC LIMIT 1", old
    )
    assert event == ("aes.runtime.session.deleted.v1", "ada")
    assert {row[0] for row in await node.rows("SELECT id FROM session_tombstones")} == {old, empty}
    assert removed() == before + 2

    await remover(default=50, limit=at_once).remove()
    assert others in await left(node)
    await remover(default=39, limit=at_once).remove()
    assert await left(node) == {again, young}


async def test_a_session_with_a_turn_in_work_stays(node: Node, model: ObedientModel, remover: Remover) -> None:
    model.shut("slow")
    model.scripts["time?"] = [calling(("clock", {}))]
    clock = {"name": "clock", "description": "", "parameters": {"type": "object"}}
    options = TurnOptions.model_validate({"client_tools": [clock]})
    running, waiting = await node.create_session(ADA), await node.create_session(ADA)
    turn = await node.execute(running, "slow", ADA)
    await node.waiting(await node.execute(waiting, "time?", ADA, turn_options=options))
    await node.rows(AGE_SESSIONS, [running, waiting])
    await remover(default=1).remove()
    assert await left(node) == {running, waiting}
    model.open("slow")
    await node.ended(turn)
    await node.rows(AGE_TURNS, [running])
    await remover(default=1).remove()
    assert await left(node) == {waiting}


async def test_what_a_company_has_set_is_read_and_told(node: Node) -> None:
    read = SessionRetention(PostgresRetentionReads(node.database), 365).read
    assert (await read("company-a")).session_retention_days == 365
    command = await node.deliver(SetRetention(session_retention_days=7), ADA)
    shown = (await read("company-a")).model_dump()
    assert shown == {"session_retention_days": 7, "default_session_retention_days": 365}
    [[subject, kind]] = await node.rows("SELECT subject, type FROM outbox WHERE causation_id = %s", command)
    assert (subject, kind) == ("company-a", "aes.runtime.retention.updated.v1")
    await node.deliver(SetRetention(session_retention_days=None), ADA)
    assert (await read("company-a")).session_retention_days == 365

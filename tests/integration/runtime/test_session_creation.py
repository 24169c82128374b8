"""Sessions that are created at the same time share a transaction, and each has an outcome of its own."""

import asyncio

from libs.contracts.identifiers import new_id
from libs.contracts.resources.sessions import CreateSession, ForkSession
from tests.integration.runtime.conftest import StartNode
from tests.support.held_commits import commits_held
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until

AGENT = {"name": "Tester", "agent_type": "llm_agent", "llm_config": {"model": "test:model"}}


def creation(session_id: str) -> CreateSession:
    return CreateSession(session_id=session_id, agent_config=AGENT, config_hash="hash")


async def test_creations_that_meet_share_transactions(node: Node) -> None:
    async with commits_held(node.database.url, "sessions") as held:
        first = asyncio.create_task(node.deliver(creation(new_id())))
        await held.reached()
        others = [asyncio.create_task(node.deliver(creation(new_id()))) for _ in range(7)]
        commits = node.worker.sessions._commits
        await until(lambda: len(commits._waiting) == 7, "the others wait for the first one")

    for command in await asyncio.gather(first, *others):
        assert (await node.outcome(command))[0] == "session.created"
    assert await node.rows("SELECT count(*), count(DISTINCT xmin::text) FROM sessions") == [(8, 2)]


async def test_a_redelivery_and_a_taken_id_do_not_keep_others_from_being_created(node: Node) -> None:
    taken, once = await node.create_session(), new_id()
    repeated = await node.deliver(creation(once))
    others = [new_id() for _ in range(4)]

    given = [node.deliver(creation(session)) for session in (others[0], taken, *others[1:])]
    refused = (await asyncio.gather(node.deliver(creation(once), command_id=repeated), *given))[2]

    assert (await node.outcome(refused))[0] == "create_session.rejected"
    rows = await node.rows("SELECT id FROM sessions WHERE id = ANY(%s)", [taken, once, *others])
    assert len(rows) == 6
    events = await node.rows("SELECT count(*) FROM outbox WHERE subject = %s", once)
    assert events == [(1,)]


async def test_a_first_turn_finds_the_session_in_memory(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    # What this worker knows needs no row: another one would find no agent.
    await node.rows("UPDATE sessions SET config = '{}' WHERE id = %s RETURNING id", session)

    [ended] = await node.ended(await node.execute(session, "hello", person()))

    assert ended["status"] == "completed"
    assert model.requests[-1].model == "test:model"


async def test_sessions_beyond_the_limit_of_their_company_are_refused(start_node: StartNode) -> None:
    node = await start_node(company_sessions=3)
    given = await asyncio.gather(*(node.deliver(creation(new_id())) for _ in range(5)))
    outcomes = [await node.outcome(command) for command in given]
    assert sorted(name for name, *_ in outcomes) == ["create_session.rejected"] * 2 + ["session.created"] * 3
    assert await node.rows("SELECT count(*) FROM sessions") == [(3,)]
    assert await node.worker.amounts.used(person().company_id) == {"sessions": 3}


async def test_a_fork_is_a_session_like_any_other(start_node: StartNode) -> None:
    node = await start_node(company_sessions=2)
    source = await node.create_session()
    for expected in ("session.created", "fork_session.rejected"):
        fork = await node.deliver(ForkSession(session_id=new_id(), source_session_id=source))
        assert (await node.outcome(fork))[0] == expected

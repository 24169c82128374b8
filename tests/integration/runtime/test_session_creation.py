"""Sessions that are created at the same time share a transaction, and each has an outcome of its own."""

import asyncio

from libs.contracts.commands.runtime import CreateSession, UpdateSession
from libs.contracts.identifiers import new_id
from tests.support.runtime_nodes import Node, ObedientModel, person

AGENT = {"name": "Tester", "agent_type": "llm_agent", "llm_config": {"model": "test:model"}}


def creation(session_id: str) -> CreateSession:
    return CreateSession(session_id=session_id, agent_config=AGENT, config_hash="hash")


async def test_creations_that_meet_share_transactions(node: Node) -> None:
    commands = await asyncio.gather(*(node.deliver(creation(new_id())) for _ in range(8)))

    for command in commands:
        assert (await node.outcome(command))[0] == "session.created"
    transactions = await node.rows("SELECT count(DISTINCT xmin::text) FROM sessions")
    assert transactions[0][0] < 8


async def test_the_events_of_a_created_session_are_numbered_on(node: Node) -> None:
    session = await node.create_session()
    await node.outcome(await node.deliver(UpdateSession(session_id=session, metadata={"place": "here"})))

    numbers = await node.rows("SELECT type, sequence FROM outbox WHERE subject = %s ORDER BY sequence", session)

    assert [(name.split(".", 2)[2], number) for name, number in numbers] == [
        ("session.created.v1", 1),
        ("session.updated.v1", 2),
    ]


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

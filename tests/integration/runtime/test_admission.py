"""Admission of turns: limits, queues, and fairness."""

import asyncio

import pytest

from libs.contracts.identifiers import new_id
from libs.persistence import is_unreachable
from tests.integration.runtime.conftest import StartNode
from tests.support.held_commits import commits_held
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until

TEXT = {"type": "text", "text": "what is this?"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}


async def refusal(node: Node, turn_id: str) -> str:
    name, payload = await node.outcome(turn_id)
    assert name == "execute_turn.rejected"
    assert await node.turn(turn_id) == {}
    return str(payload["error"]["type"])


async def test_an_unknown_session_is_not_found(node: Node) -> None:
    for session in (new_id(), "no id at all", "'; --", "nul\x00"):
        assert await refusal(node, await node.execute(session, "hello")) == "not_found_error"


async def test_a_refused_command_stays_refused_when_it_would_be_welcome_later(start_node, model: ObedientModel) -> None:
    node = await start_node(max_turns_per_session=1)
    session = await node.create_session()
    model.shut("first")
    first = await node.execute(session, "first")
    second = await node.execute(session, "second")
    assert await refusal(node, second) == "rate_limit_error"
    model.open("first")
    await node.ended(first)
    await node.execute(session, "second", command_id=second)
    assert await node.turn(second) == {}
    assert model.asked == ["first"]


@pytest.mark.rule(8)
async def test_a_session_takes_only_so_many_turns(start_node, model: ObedientModel) -> None:
    node = await start_node(max_turns_per_session=3)
    session = await node.create_session()
    model.shut("all")
    results = await asyncio.gather(*[node.execute(session, "all") for _ in range(5)])
    refused = [turn_id for turn_id in results if not await node.turn(turn_id)]
    assert len(refused) == 2
    _, payload = await node.outcome(refused[0])
    assert payload["error"]["type"] == "rate_limit_error"
    assert payload["error"]["retry_after"] > 0


async def test_a_company_takes_only_so_many_turns_and_harms_no_other(start_node, model: ObedientModel) -> None:
    node = await start_node(max_turns_per_company=3)
    model.shut("all")
    turns = [await node.execute(await node.create_session(), "all") for _ in range(4)]
    assert await refusal(node, turns[3]) == "rate_limit_error"
    stranger = person("zoe", "company-2")
    turn_id = await node.execute(await node.create_session(stranger), "hello", stranger)
    await node.ended(turn_id)


async def test_blocks_of_text_and_images_are_taken(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    turn_id = await node.execute(session, [TEXT, IMAGE])
    await node.ended(turn_id)
    page = await node.reads.messages(session, person(), limit=10, offset=0)
    assert page.messages[0].content == "what is this?"
    assert page.messages[0].content_blocks == [TEXT, IMAGE]
    await node.ended(await node.execute(session, "and now?"))
    assert [len(m.parts) for m in model.requests[-1].messages[::2]] == [2, 1]


async def test_one_bad_command_does_not_fail_its_batch(node: Node, model: ObedientModel) -> None:
    """A turn id that is also a known event subject breaks the statement, not just its own row."""
    sessions = [await node.create_session() for _ in range(6)]
    bad = new_id()
    await node.rows(
        "INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, terminal, payload)"
        " VALUES ('e', 't', 'runtime-events', %s, 1, 'c', 'c', false, '') RETURNING id",
        bad,
    )
    good = [node.execute(session, "fine") for session in sessions[:5]]
    results = await asyncio.gather(*good[:2], node.execute(sessions[5], "bad", command_id=bad), *good[2:],
                                   return_exceptions=True)  # fmt: skip
    assert [isinstance(result, Exception) for result in results] == [False, False, True, False, False, False]
    await node.ended(*[result for result in results if isinstance(result, str)])
    for session in sessions[:5]:
        assert await node.history(session) == [("user", "fine"), ("assistant", "re: fine")]
    assert await node.history(sessions[5]) == []


async def test_an_outage_is_told_as_one_and_the_command_is_taken_up_after_it(node: Node) -> None:
    session, command_id = await node.create_session(), new_id()
    node.database.down = True
    with pytest.raises(Exception, match="cut off") as outage:
        await node.execute(session, "hello", command_id=command_id)
    assert is_unreachable(outage.value), "or the command would be given up after a quarter of an hour"
    node.database.down = False
    await node.execute(session, "hello", command_id=command_id)
    await node.ended(command_id)


async def test_commands_that_arrive_together_share_transactions(node: Node, model: ObedientModel) -> None:
    sessions = [await node.create_session() for _ in range(20)]
    model.shut("all")
    async with commits_held(node.database.url, "turns") as held:
        first = asyncio.create_task(node.execute(sessions[0], "all"))
        await held.reached()
        others = [asyncio.create_task(node.execute(session, "all")) for session in sessions[1:]]
        commits = node.worker.admit._commits
        await until(lambda: len(commits._waiting) == 19, "the others wait for the first one")
    turns = await asyncio.gather(first, *others)
    rows = await node.rows("SELECT count(*), count(DISTINCT xmin::text) FROM turns WHERE id = ANY(%s)", turns)
    assert rows == [(20, 2)]


FLOODING, QUIET = person("alice", "flooding"), person("bob", "quiet")
QUESTIONS = [*(f"flood {number}" for number in range(6)), "quiet 0", "quiet 1"]


@pytest.mark.rule(9)
async def test_a_turn_beside_a_flood_begins_at_once_and_places_are_given_in_turn(
    start_node: StartNode, model: ObedientModel
) -> None:
    node = await start_node(max_running_turns=4)
    model.shut(*QUESTIONS)
    sessions = [await node.create_session(FLOODING) for _ in range(6)]
    flood = [await node.execute(session, f"flood {n}", FLOODING) for n, session in enumerate(sessions)]
    # A session that runs has more to do; its place is another company's when it ends.
    flood.append(await node.execute(sessions[0], "flood again", FLOODING))
    quiet = [await node.execute(await node.create_session(QUIET), f"quiet {n}", QUIET) for n in range(2)]
    assert await _statuses(node, flood) == [*4 * ["running"], *3 * ["queued"]]
    assert await _statuses(node, quiet) == ["running", "queued"]
    await until(lambda: node.worker.engine.left_waiting == {"flooding", "quiet"})
    model.open("flood 0")
    await until(lambda: "quiet 1" in model.asked)
    assert await _statuses(node, flood[1:]) == [*3 * ["running"], *3 * ["queued"]]
    for question in QUESTIONS:
        model.open(question)
    ended = await node.ended(*flood, *quiet)
    assert {(turn["status"], turn["attempt"]) for turn in ended} == {("completed", 1)}


async def _statuses(node: Node, turn_ids: list[str]) -> list[str]:
    return [(await node.turn(turn_id))["status"] for turn_id in turn_ids]

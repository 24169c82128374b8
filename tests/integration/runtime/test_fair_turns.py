"""Workers shared between companies: one that floods its queue keeps no other waiting."""

import pytest

from tests.integration.runtime.conftest import StartNode
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until

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

"""Two replicas of what does the work, ended under load: one after the other, or as the drain of a node ends them.

``AES_TEST_DRAINS`` says how many times a node is drained.
"""

import os
from typing import Final

import pytest

from tests.rolling_restart.run import Plan, roll
from tests.rolling_restart.targets import stack_with_replicas

DRAINS: Final = int(os.environ.get("AES_TEST_DRAINS", "2"))
PLAN = Plan(
    services=("gateway", "runtime", "ingestion"),
    left_alone=frozenset({"ingestion-all", "ingestion-all-2"}),
    talkers=4,
    pause=1.0,
    between=0.5,
    settle=3.0,
    kill="second",
)


@pytest.mark.failover("turns of a worker that stops in order")
@pytest.mark.slow
async def test_replicas_share_the_work_and_lose_nothing_when_they_end_in_turn() -> None:
    """The whole of it, by hand and on any installation: ``python -m tests.rolling_restart``."""
    with stack_with_replicas() as target:
        outcome = await roll(target, PLAN, print)
        assert outcome.problems == []
        ended = [restart.process for restart in outcome.restarts]
        assert ended == ["gateway", "gateway-2", "runtime", "runtime-2", "ingestion-streams", "ingestion-streams-2"]
        # Otherwise nothing was under way that could have been lost.
        assert len(outcome.load.turns) > 20
        assert outcome.load.ingestions
        assert outcome.load.uploads
        assert len(outcome.load.client.answered) == 2


@pytest.mark.failover("turns of a worker that stops in order")
@pytest.mark.slow
@pytest.mark.timeout(600 + 120 * DRAINS)
async def test_a_drained_node_ends_no_turn_with_an_internal_error() -> None:
    """Every turn ends once, as completed, and nothing is raised that nobody expected."""
    # Other tests keep the cores busy; loops that took them would make these fail by chance.
    plan = Plan(rounds=DRAINS, talkers=6, between=0.5, settle=3.0, drain=True)
    with stack_with_replicas(replicas="2") as target:
        outcome = await roll(target, plan, print)
        assert outcome.problems == []
        assert len(outcome.restarts) == 14 * DRAINS
        assert len(outcome.load.turns) > 20
        assert any(turn.tool_calls for turn in outcome.load.turns)

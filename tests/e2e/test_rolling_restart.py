"""Two replicas of what does the work, ended one after the other under load: some asked to, some killed."""

import pytest

from tests.rolling_restart.run import Plan, roll
from tests.rolling_restart.targets import stack_with_replicas

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

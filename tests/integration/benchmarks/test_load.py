"""The load generator measures real turns of the reference app, and no failures."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from benchmarks.load import Job, LoadFailed, Scenario
from benchmarks.stack import Children
from benchmarks.turns import LoadGenerator
from tests.support.infrastructure import Infrastructure

pytestmark = pytest.mark.slow(
    covered_by="unit/benchmarks/test_benchmarks.py::test_a_window_counts_the_turns_that_were_done_not_those_that_were_asked_for"
)


@pytest_asyncio.fixture
async def load(tmp_path: Path, infrastructure: Infrastructure) -> AsyncIterator[tuple[LoadGenerator, int]]:
    children, name = Children(f"{tmp_path}:benchmark", tmp_path / "benchmark.log"), f"test_{secrets.token_hex(6)}"
    url = await infrastructure.create_database(name)
    async with (
        children.model_stub() as (_, model_url),
        children.reference_app(url, model_url) as (_, port),
        LoadGenerator.started(children) as generator,
    ):
        yield generator, port
    await infrastructure.drop_database(name)


async def test_every_turn_is_measured_and_failures_are_refused(load: tuple[LoadGenerator, int]) -> None:
    generator, port = load
    for scenario in (
        Scenario("plain", 4, 24, turns_per_session=5),
        Scenario("stream", 4, 24, stream=True),
        Scenario("react", 4, 24, model="stub-tool", tool="calculator"),
        Scenario("lookup", 4, 24, model="stub-lookup", tool="bench.lookup"),
        Scenario("short", 2, 20, turns_per_session=5, opens_sessions=True),
    ):
        await generator.prepare(Job("reference", port, "", 60, scenario))
        outcome = await generator.run()
        assert len(outcome.latencies) == scenario.turns
        assert len(outcome.first_texts) == (scenario.turns if scenario.stream else 0)
        assert all(first <= whole for first, whole in zip(outcome.first_texts, outcome.latencies, strict=False))
        assert len(outcome.creations) >= (4 if scenario.opens_sessions else 0)
    with pytest.raises(LoadFailed, match="500"):
        await generator.prepare(Job("reference", port, "", 60, Scenario("failing", 1, 1, model="stub-error-500")))
    with pytest.raises(LoadFailed, match="unexpected response"):
        await generator.prepare(Job("reference", port, "", 60, Scenario("no call", 1, 1, tool="calculator")))

"""The benchmark's yardstick does what it is compared for: real turns, a model behind it, a history that lasts."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
import pytest_asyncio

from benchmarks.children import Children, LoadFailed, LoadGenerator
from benchmarks.load.job import Job
from tests.servers.model_stub import TEXT
from tests.support.infrastructure import Infrastructure

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow(covered_by="unit/benchmarks/test_figures.py::test_a_ratio_is_the_median_of_the_rounds"),
]

JOB = Job(
    side="reference",
    port=0,
    api_key="",
    model="stub",
    agent_type="llm_agent",
    stream=False,
    tool="",
    concurrency=4,
    turns=24,
    seconds=60,
    warm_up=4,
    turns_per_session=5,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def children(tmp_path_factory: pytest.TempPathFactory) -> Children:
    directory = tmp_path_factory.mktemp("benchmark")
    return Children(f"{directory}:benchmark", directory / "benchmark.log")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def port(children: Children, infrastructure: Infrastructure) -> AsyncIterator[int]:
    """Starts one reference app for all tests, because starting takes longer than they do."""
    name = f"test_{secrets.token_hex(6)}"
    url = await infrastructure.create_database(name)
    async with children.model_stub() as (_, model_url), children.reference_app(url, model_url) as (_, port):
        yield port
    await infrastructure.drop_database(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def load(children: Children) -> AsyncIterator[LoadGenerator]:
    async with children.load_generator() as load:
        yield load


@pytest_asyncio.fixture(loop_scope="module")
async def client(port: int) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client


async def new_session(client: httpx.AsyncClient, **settings: str) -> str:
    return str((await client.post("/sessions", json={"model": "stub", **settings})).json()["session_id"])


async def test_a_turn_sees_the_history_and_is_kept(client: httpx.AsyncClient) -> None:
    session = await new_session(client, model="stub-count")

    answers = [
        (await client.post(f"/sessions/{session}/execute", json={"content": text})).json()["response"]["content"]
        for text in ("first", "second")
    ]

    assert answers == ["1 messages", "3 messages"]
    messages = (await client.get(f"/sessions/{session}/messages")).json()
    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", "first"),
        ("assistant", "1 messages"),
        ("user", "second"),
        ("assistant", "3 messages"),
    ]


async def test_a_react_agent_calls_the_calculator(client: httpx.AsyncClient) -> None:
    session = await new_session(client, tool="calculator", model="stub-tool")

    answer = (await client.post(f"/sessions/{session}/execute", json={"content": "what is 6*7?"})).json()

    assert [call["name"] for call in answer["response"]["tool_calls"]] == ["calculator"]
    assert answer["response"]["content"] == TEXT


async def test_a_streamed_turn_is_kept(client: httpx.AsyncClient) -> None:
    session = await new_session(client)

    response = await client.post(
        f"/sessions/{session}/execute", json={"content": "hello"}, headers={"Accept": "text/event-stream"}
    )

    assert response.text.count("event: delta\n") > 1
    assert response.text.count("event: completed\n") == 1
    messages = (await client.get(f"/sessions/{session}/messages")).json()
    assert [message["content"] for message in messages] == ["hello", TEXT]


async def test_an_unknown_session_is_not_found(client: httpx.AsyncClient) -> None:
    response = await client.post("/sessions/00000000-0000-0000-0000-000000000000/execute", json={"content": "hello"})

    assert response.status_code == 404


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        replace(JOB, stream=True),
        replace(JOB, model="stub-tool", tool="calculator"),
        replace(JOB, model="stub-lookup", tool="bench.lookup"),
    ],
    ids=["plain", "stream", "react", "lookup"],
)
async def test_the_load_generator_measures_every_turn(port: int, load: LoadGenerator, job: Job) -> None:
    await load.prepare(replace(job, port=port))
    outcome = await load.run()

    assert len(outcome.latencies) == job.turns
    assert len(outcome.first_texts) == (job.turns if job.stream else 0)
    assert all(first <= whole for first, whole in zip(outcome.first_texts, outcome.latencies, strict=False))
    assert outcome.seconds > 0


async def test_the_load_generator_refuses_to_measure_failures(port: int, load: LoadGenerator) -> None:
    with pytest.raises(LoadFailed, match="500"):
        await load.prepare(replace(JOB, port=port, model="stub-error-500"))

    await load.prepare(replace(JOB, port=port, tool="calculator", warm_up=0))
    with pytest.raises(LoadFailed, match="something else"):
        await load.run()


async def test_sessions_of_short_conversations_are_opened_while_the_clock_runs(port: int, load: LoadGenerator) -> None:
    job = replace(JOB, port=port, opens_sessions=True, concurrency=2, turns=20)
    await load.prepare(job)
    outcome = await load.run()

    assert len(outcome.latencies) == job.turns
    assert len(outcome.creations) >= job.turns / job.turns_per_session

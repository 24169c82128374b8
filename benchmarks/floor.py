"""Measures what a lone turn cannot take less than: `python -m benchmarks.floor`, one minute on a quiet machine.

Starts a stack of its own beside the one in use and measures the steps that a turn consists of, each by itself and with
nothing else in the processes: a request to the gateway, two ways over Kafka between two processes, and a durable
transaction of two round trips. In the same run it measures turns and the reference app's, so that the sum can be
compared with both.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

import httpx
import uvloop
from psycopg import AsyncConnection

from benchmarks.children import Children
from benchmarks.scenarios import FULL
from benchmarks.stack import benchmark_home, remove
from benchmarks.turns import SIDES, Bench, open_bench
from cli.installation import BusAddress, embedded_bus
from deploy.local.credentials import Credentials
from deploy.local.home import Home
from deploy.local.stack import postgres_of
from deploy.local.state import StackState
from libs.contracts.topics import RUNTIME_COMMANDS, RUNTIME_EVENTS
from libs.eventing import BusUnavailable, KafkaBus, Partition, Producer, create_topics

_TIMES: Final = 400
_WARM_UP: Final = 100
_ASKED: Final = RUNTIME_COMMANDS.name
_ANSWERED: Final = RUNTIME_EVENTS.name
_PREFIX: Final = "floor."
_VALUE: Final = b"x" * 1_000
_SCENARIOS: Final = ["short-1", "short-stream-1"]
_CREATE: Final = "CREATE TABLE floor_rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, content bytea NOT NULL)"
_INSERT: Final = "INSERT INTO floor_rows (content) VALUES (%s) RETURNING id"


class _NothingToDo:
    """An assignment's callbacks, for a member that keeps nothing by partition."""

    async def assigned(self, _: frozenset[Partition]) -> None:
        return

    async def revoked(self, _: frozenset[Partition]) -> None:
        return


async def measure() -> dict[str, float]:
    """Returns p50 of each step in ms, their sums, and p50 of turns by the service and by the reference app."""
    home = benchmark_home("floor")
    await asyncio.to_thread(remove, home)
    home.create()
    try:
        async with open_bench(home, SIDES) as bench:
            found = {
                "request": await _request(bench),
                "two_ways_over_kafka": await _two_ways(home),
                "transaction": await _transaction(home),
                **await _turns(bench),
            }
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))
    # The model is asked while the first transaction commits, and is faster.
    until_claimed = found["request"] + found["two_ways_over_kafka"] + found["transaction"]
    found |= {"first_text_floor": until_claimed, "turn_floor": until_claimed + found["transaction"]}
    return {name: round(value, 2) for name, value in found.items()}


async def _typical(step: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(_WARM_UP + _TIMES):
        began = time.perf_counter()
        await step()
        times.append(1000 * (time.perf_counter() - began))
    return median(times[_WARM_UP:])


async def _request(bench: Bench) -> float:
    """The shortest authenticated answer of the gateway."""
    address = f"http://127.0.0.1:{bench.ports['aes']}/api/v1"
    async with httpx.AsyncClient(headers={"x-api-key": bench.api_key}, timeout=60, trust_env=False) as client:
        return await _typical(lambda: client.get(f"{address}/health/"))


def _bus(home: Home) -> BusAddress:
    port = StackState.read(home.state_file).parts["kafka"].port
    assert port is not None
    return embedded_bus(home, port, _PREFIX)


async def _two_ways(home: Home) -> float:
    """A record to another process and one back, as a command and its event travel."""
    address = _bus(home)
    await create_topics(address.kafka, _PREFIX, topics=(RUNTIME_COMMANDS, RUNTIME_EVENTS))
    bus = KafkaBus(address.kafka, prefix=_PREFIX)
    producer, tail = bus.producer(), bus.tail([_ANSWERED])
    await producer.start()
    await tail.start()
    keys = map(str, count())

    async def there_and_back() -> None:
        key = next(keys)
        await _send(producer, _ASKED, key)
        while not any(record.key == key for record in await tail.poll(1.0)):
            pass

    children = Children(f"{home.root}-floor", home.log_of("floor"))
    try:
        async with children.started(["benchmarks.floor", "--answer", str(home.root)]):
            async with asyncio.timeout(30):
                await there_and_back()
            return await _typical(there_and_back)
    finally:
        await tail.stop()
        await producer.stop()


async def _answer(home: Home) -> None:
    """Sends a record back for each that comes, until ended."""
    bus = KafkaBus(_bus(home).kafka, prefix=_PREFIX)
    producer, consumer = bus.producer(), bus.consumer("answering", [_ASKED], _NothingToDo())
    await producer.start()
    await consumer.start()
    while True:
        for record in await consumer.poll(1.0, 100):
            await _send(producer, _ANSWERED, record.key)


async def _send(producer: Producer, topic: str, key: str) -> None:
    while True:
        try:
            await producer.send(topic, key, _VALUE, ())
            return
        except BusUnavailable:
            # It connects in the background.
            await asyncio.sleep(0.1)


async def _transaction(home: Home) -> float:
    """One round trip until a row is there, another one until it is durable."""
    url = postgres_of(home, Credentials.load_or_create(home.credentials_file)).url("runtime")
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(_CREATE)

        async def commit() -> None:
            async with connection.pipeline() as statements:
                await connection.execute("BEGIN")
                await (await connection.execute(_INSERT, (_VALUE,))).fetchone()
                await connection.execute(_INSERT, (_VALUE,))
                await connection.execute("COMMIT")
                await statements.sync()

        return await _typical(commit)


async def _turns(bench: Bench) -> dict[str, float]:
    plan = FULL.only(_SCENARIOS)
    found: dict[str, float] = {}
    for number in (0, 1):
        for scenario in plan.scenarios:
            for side in SIDES:
                seen = await bench.measure(plan, scenario, side, number)
                # The first round is there to warm up.
                found[f"{scenario.name}, {side}"] = seen.p50 if seen.first_text_p50 is None else seen.first_text_p50
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a lone turn cannot take less than.")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        uvloop.run(_answer(Home(Path(options.answer))))
    print(json.dumps(uvloop.run(measure()), indent=2))


if __name__ == "__main__":
    main()

"""KEDA scales workers by what waits for them, with the overlay's own triggers and thresholds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.cluster.cluster import MANIFESTS, Installation, Say, ScenarioFailed, until
from tests.cluster.node import limit_memory
from tests.cluster.operators import run_keda
from tests.cluster.strimzi import make_secrets, set_up
from tests.e2e.event_log import ENDS, EventLog, count_by_subject
from tests.rolling_restart.client import Client, unique, unique_words
from tests.rolling_restart.load import AGENT

KEDA: Final = Installation(MANIFESTS / "keda", "agent-execution-service")
# More than the thresholds let two workers keep; a turn takes twenty seconds.
_SESSIONS, _TURNS_EACH = 60, 6
_FILES: Final = 150


def workers_follow_their_work(small: Installation, say: Say) -> None:
    """The overlay `keda` with its own triggers, Kafka by TLS and with passwords; `small` gives its place to it."""
    small.remove()
    limit_memory(12 * 2**30)
    run_keda(say)
    passwords = make_secrets(KEDA.namespace)
    KEDA.apply()
    set_up(KEDA, passwords)
    say(f"Kafka has its users and topics; everything is ready after {KEDA.wait_ready():.0f} s more")
    KEDA.take_key()
    asyncio.run(followed(KEDA, say))
    KEDA.remove()


async def followed(installation: Installation, say: Say) -> None:
    def idle() -> bool:
        return (installation.ready("runtime-worker"), installation.ready("ingestion-streams")) == (2, 0)

    waited = await asyncio.to_thread(until, idle, "nothing is left to do", 300)
    say(f"idle after {waited:.0f} s: 2 of runtime-worker, none of ingestion-streams")
    await _turns(installation, say)
    await _files(installation, say)


async def _turns(installation: Installation, say: Say) -> None:
    """Turns that wait make workers; each turn ends once, and the workers go again."""
    client = Client([installation.address()], installation.api_key)
    try:
        sessions = await asyncio.gather(*(client.session(AGENT) for _ in range(_SESSIONS)))
        labels = {unique("turn"): session for session in sessions for _ in range(_TURNS_EACH)}
        begun = (client.begin(session, f"What is known? ({label})", label) for label, session in labels.items())
        turns = await asyncio.gather(*begun)
        say(f"{len(turns)} turns wait or run")
        most = await asyncio.to_thread(_most, installation, "runtime-worker", 3, 2)
        say(f"runtime-worker went from 2 to {most} and back to 2")
        # Workers went while turns ran: others have them now.
        ends = count_by_subject(await EventLog("kafka:9092").ended(labels), *ENDS)
        wrong = {turn for turn in turns if ends[turn] != 1}
        if wrong:
            raise ScenarioFailed(f"{len(wrong)} turns did not end exactly once: {sorted(wrong)[:3]}")
        states = Counter([(await client.turn(*turn))["status"] for turn in zip(labels.values(), turns, strict=True)])
        if states != {"completed": len(turns)}:
            raise ScenarioFailed(f"of {len(turns)} turns: {dict(states)}")
        say(f"{len(turns)} turns completed, each once")
    finally:
        await client.close()


async def _files(installation: Installation, say: Say) -> None:
    """Files that wait bring the first streams process; when all are searchable, none is left."""
    client = Client([installation.address()], installation.api_key)
    try:
        words = unique_words(_FILES)
        base = await client.ingest(words)
        most = await asyncio.to_thread(_most, installation, "ingestion-streams", 1, 0)
        say(f"ingestion-streams went from 0 to {most} and back to 0")
        found = [await client.passages(base, word) for word in words]
        if {*found} != {1}:
            raise ScenarioFailed(f"passages by file: {Counter(found)}")
        say(f"{len(words)} files are found, each once")
    finally:
        await client.close()


def _most(installation: Installation, deployment: str, wanted: int, rest: int) -> int:
    """The largest number of ready pods until there are `rest` again. Raises ScenarioFailed below `wanted`."""
    counts: list[int] = []

    def seen(condition: Callable[[int], bool]) -> bool:
        counts.append(installation.ready(deployment))
        return condition(counts[-1])

    until(lambda: seen(lambda count: count >= wanted), f"there are {wanted} of {deployment}", 300)
    until(lambda: seen(lambda count: count <= rest), f"there are {rest} of {deployment} again", 600)
    return max(counts)

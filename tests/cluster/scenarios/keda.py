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
from tests.rolling_restart.client import Client, unique
from tests.rolling_restart.load import MODEL

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
        sessions = await asyncio.gather(*(_session(client) for _ in range(_SESSIONS)))
        labels = {unique("turn"): session for session in sessions for _ in range(_TURNS_EACH)}
        turns = await asyncio.gather(*(_begin(client, session, label) for label, session in labels.items()))
        say(f"{len(turns)} turns wait or run")
        most = await asyncio.to_thread(_most, installation, "runtime-worker", 3, 2)
        say(f"runtime-worker went from 2 to {most} and back to 2")
        # Workers went while turns ran: others have them now.
        ends = count_by_subject(await EventLog("kafka:9092").ended(labels), *ENDS)
        wrong = {turn for _, turn in turns if ends[turn] != 1}
        if wrong:
            raise ScenarioFailed(f"{len(wrong)} turns did not end exactly once: {sorted(wrong)[:3]}")
        states = Counter([await _status(client, *turn) for turn in turns])
        if states != {"completed": len(turns)}:
            raise ScenarioFailed(f"of {len(turns)} turns: {dict(states)}")
        say(f"{len(turns)} turns completed, each once")
    finally:
        await client.close()


async def _session(client: Client) -> str:
    agent = {"name": "Scaled", "agent_type": "llm_agent", "llm_config": {"model": MODEL}}
    return str((await client.call("POST", "/sessions/", expect=201, json=agent)).json()["session_id"])


async def _begin(client: Client, session: str, label: str) -> tuple[str, str]:
    headers = {"x-correlation-id": label, "prefer": "respond-async"}
    path, body = f"/runtime/{session}/execute/", {"content": f"What is known? ({label})"}
    reply = await client.call("POST", path, expect=202, key=label, headers=headers, json=body)
    return session, str(reply.json()["turn_id"])


async def _status(client: Client, session: str, turn: str) -> str:
    return str((await client.call("GET", f"/runtime/{session}/turns/{turn}/", expect=200)).json()["status"])


async def _files(installation: Installation, say: Say) -> None:
    """Files that wait bring the first streams process; when all are searchable, none is left."""
    client = Client([installation.address()], installation.api_key)
    try:
        words = [unique("word").replace("-", "") for _ in range(_FILES)]
        files = [("file", (f"{word}.md", f"# About {word}\n\nThe {word} is kept here.\n")) for word in words]
        ids: list[str] = []
        for start in range(0, len(files), 10):
            made = await client.call("POST", "/files/", expect=201, files=files[start : start + 10])
            ids += [file["id"] for file in made.json()["files"]]
        body = {"name": unique("base"), "file_ids": ids}
        base = (await client.call("POST", "/knowledge-bases/", expect=201, json=body)).json()["id"]
        most = await asyncio.to_thread(_most, installation, "ingestion-streams", 1, 0)
        say(f"ingestion-streams went from 0 to {most} and back to 0")
        found = [await _passages(client, base, word) for word in words]
        if {*found} != {1}:
            raise ScenarioFailed(f"passages by file: {Counter(found)}")
        say(f"{len(words)} files are found, each once")
    finally:
        await client.close()


async def _passages(client: Client, base: str, word: str) -> int:
    body = {"query": word, "mode": "keyword", "top_k": 10}
    reply = await client.call("POST", f"/knowledge-bases/{base}/search/", expect=200, json=body)
    return len(reply.json()["results"])


def _most(installation: Installation, deployment: str, wanted: int, rest: int) -> int:
    """The largest number of ready pods until there are `rest` again. Raises ScenarioFailed below `wanted`."""
    counts: list[int] = []

    def seen(condition: Callable[[int], bool]) -> bool:
        counts.append(installation.ready(deployment))
        return condition(counts[-1])

    until(lambda: seen(lambda count: count >= wanted), f"there are {wanted} of {deployment}", 300)
    until(lambda: seen(lambda count: count <= rest), f"there are {rest} of {deployment} again", 600)
    return max(counts)

"""Checks after the end of a run."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict

from libs.eventing import KafkaConnection
from tests.e2e.event_log import ENDS, EventLog, count_by_subject
from tests.rolling_restart.client import Client
from tests.rolling_restart.load import Ingestion, Load, Turn, messages

_CALLED = ("turn.tool_call.completed", "turn.tool_call.failed")


async def problems(load: Load, kafka: KafkaConnection | str | None, *, killed: bool) -> list[str]:
    """Describes each loss and each duplicate."""
    found = list(load.losses)
    found += await _histories(load.client, load.turns)
    found += await _artifacts(load)
    for ingestion in load.ingestions:
        found += await _ingestion(load.client, ingestion)
    if kafka is not None:
        found += await _events(EventLog(kafka), load.turns, killed=killed)
    return found


async def errors_of_the_service(client: Client) -> list[str]:
    """Returns turns, runs and jobs that ended with `internal_error`, by whatever caller; the key is an operator's."""
    reply = (await client.call("GET", "/operations/failures/", expect=200)).json()
    return [f"failed with an internal error: {failure}" for failure in reply["failures"]]


async def _histories(client: Client, turns: list[Turn]) -> list[str]:
    """Each session holds its turns in their order, every question and every answer once."""
    found = []
    by_session: defaultdict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_session[turn.session_id].append(turn)
    for session, own in by_session.items():
        wanted = [said for turn in own for said in (("user", turn.question), ("assistant", turn.answer))]
        history = await messages(client, session)
        if [(message["role"], message["content"]) for message in history] != wanted:
            found.append(f"session {session}: {len(history)} messages of {len(wanted)}, or others than were answered")
        for turn in own:
            if turn.tool_calls != own[0].tool_calls:
                found.append(f"turn {turn.turn_id} has {turn.tool_calls} tool calls, others {own[0].tool_calls}")
    return found


async def _events(log: EventLog, turns: list[Turn], *, killed: bool) -> list[str]:
    """On the bus each turn ended once and each tool was called once."""
    labels = {turn.turn_id: _label(turn) for turn in turns}
    events = await log.ended(labels.values())
    ended, found = count_by_subject(events, *ENDS), []
    called, started = count_by_subject(events, *_CALLED), count_by_subject(events, "turn.tool_call.started")
    for turn in turns:
        if ended[turn.turn_id] != 1:
            found.append(f"turn {turn.turn_id} ended {ended[turn.turn_id]} times")
        # A call whose result was not recorded when its process was killed is made again, if that does no harm.
        repeated = started[turn.turn_id] > turn.tool_calls and not killed
        if called[turn.turn_id] != turn.tool_calls or repeated:
            found.append(f"turn {turn.turn_id}: {called[turn.turn_id]} results of {turn.tool_calls} tool calls")
    foreign = set(ended) - labels.keys()
    if foreign:
        found.append(f"{len(foreign)} turns on the bus that nobody asked for")
    return found


def _label(turn: Turn) -> str:
    return turn.question.partition("(")[2].rstrip(")")


async def _artifacts(load: Load) -> list[str]:
    """All are there with their bytes, and there are no others."""
    found = []
    for upload in load.uploads:
        path = f"/sessions/{upload.session_id}/artifacts/{upload.artifact_id}/download/"
        content = (await load.client.call("GET", path, expect=200)).content
        if hashlib.sha256(content).hexdigest() != upload.digest:
            found.append(f"artifact {upload.artifact_id} has other bytes")
    counts = Counter(upload.session_id for upload in load.uploads)
    for session, count in counts.items():
        query = {"limit": 1}
        page = await load.client.call("GET", f"/sessions/{session}/artifacts/", expect=200, params=query)
        if page.json()["total"] != count:
            found.append(f"session {session} has {page.json()['total']} artifacts, {count} were uploaded")
    return found


async def _ingestion(client: Client, ingestion: Ingestion) -> list[str]:
    """Each document is found by its own word, in one passage."""
    base = ingestion.knowledge_base_id
    counts = await asyncio.gather(*(client.passages(base, word) for word in ingestion.words))
    if set(counts) == {1}:
        return []
    return [f"knowledge base {ingestion.knowledge_base_id}: passages by document {sorted(counts)}"]

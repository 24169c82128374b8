"""One `execute`: the files that it runs through, as listed in `call_path.txt`, and the hops between them.

A file counts when one of its functions runs between the request's socket and the answer's, but for those beside the
path (`tests/support/traced_calls`). A hop is a call from a function in a counted file to one in another, each pair of
files once, or a message or task that is handed over to a file, once.
What happens beside a turn by chance is in some turns and not in others: what all of many turns have in common counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.api import Api, new_client, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import ROOT, RunningStack, environment_of, temporary_home
from tests.support.waiting import until

pytestmark = pytest.mark.slow(reason="a stack of its own, each call of which is recorded")

PROCESSES = ("gateway", "runtime")
# These may only become less. The hops vary: one counts only if all turns of a run happened to take it.
MOST_FILES, MOST_HOPS = 54, 110
TURNS = 40
KEYS = "services/gateway/adapters/postgres/keys.py"
TRACER = ROOT / "tests" / "support" / "traced_calls"

Hop = tuple[str, str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # Services of a stack that root has started run as root, too.
    return tmp_path


@pytest.fixture
def traced(folder: Path, model: HeldModel) -> Iterator[RunningStack]:
    with temporary_home(kept=False) as home:
        settings = {"PYTHONPATH": str(TRACER), "AES_TRACED_CALLS": str(folder)}
        running = RunningStack(home, {**environment_of(home, model.base_url), **settings})
        running.up()
        running.wait_ready()
        yield running
        running.down()


async def test_one_execute_goes_through_the_listed_files(traced: RunningStack, folder: Path) -> None:
    pids = [traced.pid(name) for name in PROCESSES]
    async with new_client(traced.base_url, traced.api_key) as http:
        api = Api(http)
        session = await api.session("openai:stub")

        async def key_is_cached() -> bool:
            return all(KEYS not in called for _, called in await calls_of_a_turn(api, session, folder, pids))

        # A gateway that has just started reads a key for each request until it has caught up with the events of keys.
        await until(key_is_cached, "the key is cached")
        turns = [await calls_of_a_turn(api, session, folder, pids) for _ in range(TURNS)]
    always = set.intersection(*turns[TURNS // 4 :])
    hops = {(caller.partition(":")[0], called.partition(":")[0]) for caller, called in always}
    files = {file for hop in hops for file in hop} - {""}
    assert len(files) <= MOST_FILES, " ".join(sorted(files))
    assert len(hops) <= MOST_HOPS, " ".join(f"{caller}>{called}" for caller, called in sorted(hops))
    assert files == listed()


async def calls_of_a_turn(api: Api, session: str, folder: Path, pids: list[int]) -> set[Hop]:
    """Pairs of functions of which the first called the second while a turn was executed."""
    (folder / "on").touch()
    await until(lambda: all((folder / f"on-{pid}").exists() for pid in pids))
    answered = await api.execute(session, "Hello", idempotency_key=unique())
    (folder / "on").unlink()
    assert answered.status_code == 200, answered.text
    await until(lambda: not any((folder / f"on-{pid}").exists() for pid in pids))
    return {
        (caller, called) for pid in pids for caller, called in json.loads((folder / f"calls-{pid}.json").read_text())
    }


def listed() -> set[str]:
    return set((Path(__file__).parent / "call_path.txt").read_text().split())

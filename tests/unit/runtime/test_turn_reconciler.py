"""One pass of the reconciler, with a database that tells what it is given."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from libs.contracts.errors import ErrorKind
from services.runtime.domain.admission import WorkerSlots
from services.runtime.domain.conversation import UserMessage
from services.runtime.domain.turns import (
    ClaimedTurn,
    CommitResult,
    OrphanedTurn,
    OutcomeKind,
    TurnOutcome,
    TurnSnapshot,
)
from services.runtime.use_cases.engine.turn_reconciler import TurnReconciler
from tests.support.runtime_turns import NoMetrics, claimed_turn


class Engine:
    """The part of a turn engine that the reconciler uses; ``broken`` turns cannot be ended."""

    def __init__(self, held: dict[str, int] | None = None, *, free: int = 5, broken: str = "") -> None:
        self.held = held or {}
        self.free = free
        self.broken = broken
        self.started: list[str] = []
        self.stopped: list[str] = []
        self.committed: list[TurnOutcome] = []
        self.watched: dict[str, int] = {}
        self.left_waiting: frozenset[str] = frozenset()

    @property
    def present(self) -> frozenset[str]:
        return frozenset(self.held)

    def slots(self) -> WorkerSlots:
        return WorkerSlots(self.free)

    def start(self, turn: ClaimedTurn, _question: UserMessage | None = None) -> None:
        self.started.append(turn.id)

    def watch(self, turn_id: str, watches: int) -> None:
        self.watched[turn_id] = watches

    def stop(self, turn_id: str) -> None:
        self.stopped.append(turn_id)

    async def commit(self, outcome: TurnOutcome) -> CommitResult:
        if outcome.turn.id == self.broken:
            raise ValueError("this one cannot be ended")
        self.committed.append(outcome)
        return CommitResult(True)


class Database:
    def __init__(self, **seen: object) -> None:
        empty: dict[str, object] = {
            "held": {},
            "watches": {},
            "orphans": (),
            "claimable": (),
            "deleting": (),
            "queued": 0,
        }
        self.seen = TurnSnapshot(**{**empty, **seen})  # type: ignore[arg-type]
        self.unknown: list[Sequence[str]] = []
        self.taken: list[str] = []
        self.removed: list[str] = []
        self.resolved: list[str] = []
        self.measured = 0

    async def snapshot(self, unknown: Sequence[str], _overdue_grace: float) -> TurnSnapshot:
        self.unknown.append(unknown)
        return self.seen

    async def open_waits(self) -> int:
        self.measured += 1
        return 7

    async def claim(self, session_ids: Sequence[str]) -> list[ClaimedTurn]:
        return [claimed_turn(id=f"turn of {session}") for session in session_ids]

    async def reclaim(self, orphans: Sequence[OrphanedTurn], _max_lost_attempts: int) -> list[ClaimedTurn]:
        self.taken += [orphan.turn.id for orphan in orphans]
        return [orphan.turn for orphan in orphans]

    async def __call__(self, session_id: str) -> bool:
        self.removed.append(session_id)
        return True

    async def resolve_due(self, _session_id: str, turn_id: str, /) -> None:
        if turn_id == "odd":
            raise ValueError("cannot be resolved")
        self.resolved.append(turn_id)


def reconciler(engine: Engine, database: Database) -> TurnReconciler:
    return TurnReconciler(engine, database, database, database.resolve_due, NoMetrics())  # type: ignore[arg-type]


def orphan(
    turn_id: str, *, lost: int = 1, overdue: bool = False, cancelled: bool = False, fence: int = 1
) -> OrphanedTurn:
    return OrphanedTurn(claimed_turn(id=turn_id, fence=fence, attempt=fence), "dead", lost, overdue, cancelled)


async def test_lost_turns_are_stopped_held_ones_go_on_and_requests_for_their_text_reach_the_engine() -> None:
    engine = Engine({"mine": 1, "fenced": 1, "cancelled": 1, "gone": 1})
    held = {"mine": (1, "running"), "fenced": (2, "running"), "cancelled": (1, "cancelled")}
    await reconciler(engine, Database(held=held, watches={"mine": 2})).reconcile()
    assert sorted(engine.stopped) == ["cancelled", "fenced", "gone"]
    assert engine.watched == {"mine": 2}


@pytest.mark.parametrize(("held", "unknown"), [({}, ["turn"]), ({"turn": 1}, [])])
async def test_a_turn_is_unknown_when_seen_twice_unless_its_claim_was_answered_meanwhile(
    held: dict[str, int], unknown: list[str]
) -> None:
    engine, database = Engine(), Database(held={"turn": (1, "running")})
    passes = reconciler(engine, database)
    await passes.reconcile()
    engine.held = held
    await passes.reconcile()
    assert (database.unknown, engine.stopped) == ([[], unknown], [])


async def test_own_running_turns_are_not_reclaimed() -> None:
    """The database was asked before the claim's answer was here, and says so after it."""
    engine, database = Engine({"mine": 1, "older": 1}), Database(orphans=(orphan("mine"), orphan("older", fence=2)))
    await reconciler(engine, database).reconcile()
    assert (database.taken, engine.started) == (["older"], ["older"])


@pytest.mark.parametrize(
    ("found", "kind", "error"),
    [
        (orphan("t", cancelled=True), OutcomeKind.RELEASED, None),
        (orphan("t", overdue=True), OutcomeKind.FAILED, ErrorKind.TIMEOUT),
        (orphan("t", lost=3), OutcomeKind.FAILED, ErrorKind.INTERNAL),
    ],
)
async def test_hopeless_turns_are_ended_and_not_taken(
    found: OrphanedTurn, kind: OutcomeKind, error: ErrorKind | None
) -> None:
    engine, database = Engine(), Database(orphans=(found, orphan("fine")))
    await reconciler(engine, database).reconcile()
    [outcome] = engine.committed
    assert (outcome.kind, (outcome.error or {}).get("type")) == (kind, error)
    assert database.taken == ["fine"]
    assert engine.started == ["fine"]


async def test_one_that_cannot_be_ended_keeps_nothing_else_from_being_done() -> None:
    engine = Engine(broken="bad")
    orphans = (orphan("bad", lost=3), orphan("old", lost=3), orphan("fine"))
    database = Database(orphans=orphans, claimable=(("company", "s"),), deleting=("d",))
    await reconciler(engine, database).reconcile()
    assert [outcome.turn.id for outcome in engine.committed] == ["old"]
    assert engine.started == ["fine", "turn of s"]
    assert database.removed == ["d"]


async def test_a_full_worker_takes_nothing_but_still_ends_and_removes() -> None:
    engine = Engine(free=0)
    database = Database(orphans=(orphan("fine"), orphan("old", lost=3)), claimable=(("company", "s"),), deleting=("d",))
    await reconciler(engine, database).reconcile()
    assert (engine.started, database.taken, database.removed) == ([], [], ["d"])
    assert [outcome.turn.id for outcome in engine.committed] == ["old"]


async def test_waits_whose_time_has_come_are_resolved_one_by_one() -> None:
    database = Database(due=(("s1", "first"), ("s2", "odd"), ("s3", "last")), deleting=("gone",))
    await reconciler(Engine(), database).reconcile()
    assert database.resolved == ["first", "last"]
    assert database.removed == ["gone"]


async def test_open_waits_are_counted_now_and_then() -> None:
    database, now = Database(), [100.0]
    counted: list[int] = []
    metrics = NoMetrics()
    metrics.open_waits = counted.append  # type: ignore[method-assign, assignment]
    passes = TurnReconciler(Engine(), database, database, database.resolve_due, metrics, clock=lambda: now[0])  # type: ignore[arg-type]
    for seconds in (0.0, 1.0, 13.9, 0.1, 1.0):
        now[0] += seconds
        await passes.reconcile()
    assert counted == [7, 7]
    assert database.measured == 2


async def test_the_engine_is_told_which_companies_are_left_waiting() -> None:
    engine = Engine(free=2)
    database = Database(claimable=(("a", "a1"), ("b", "b1"), ("a", "a2"), ("a", "a3")))
    await reconciler(engine, database).reconcile()
    assert engine.started == ["turn of a1", "turn of b1", "turn of a2"]
    assert engine.left_waiting == {"a"}
    database.seen = replace(database.seen, claimable=())
    await reconciler(engine, database).reconcile()
    assert not engine.left_waiting

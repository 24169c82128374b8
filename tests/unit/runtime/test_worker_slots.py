"""Places of a worker, shared between companies."""

from services.runtime.domain.admission import WorkerSlots


def test_a_company_takes_all_but_what_is_kept_for_others() -> None:
    slots = WorkerSlots(16)
    assert sum(slots.take("flooding") for _ in range(100)) == 16
    assert [slots.take("quiet") for _ in range(3)] == [True, True, False]
    assert not slots.take("third")


def test_a_worker_of_one_place_has_one_for_another_company() -> None:
    slots = WorkerSlots(1, {"flooding": 1})
    assert [slots.take("flooding"), slots.take("quiet"), slots.take("quiet")] == [False, True, False]


def test_a_worker_that_drains_has_no_place() -> None:
    assert not WorkerSlots(0).take("any")


def test_more_running_turns_than_places_leave_none() -> None:
    assert not WorkerSlots(2, {"a": 5}).take("b")


def test_waiting_companies_are_served_in_turn() -> None:
    waiting = [("a", f"a{n}") for n in range(9)] + [("b", f"b{n}") for n in range(2)] + [("c", "c0")]
    assert WorkerSlots(6).assign_slots(waiting) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_whoever_runs_fewest_is_served_first() -> None:
    waiting = [("a", "a0"), ("b", "b0"), ("b", "b1")]
    assert WorkerSlots(8, {"a": 2, "b": 5}).assign_slots(waiting) == ["a0", "b0"]
    assert WorkerSlots(8, {"a": 5, "b": 2}).assign_slots(waiting) == ["b0", "b1"]


def test_a_company_at_its_most_keeps_none_behind_it_waiting() -> None:
    assert WorkerSlots(2, {"a": 2}).assign_slots([("a", "a0"), ("b", "b0")]) == ["b0"]


def test_nobody_waits() -> None:
    assert WorkerSlots(2).assign_slots([]) == []

"""Items of companies are taken in turn."""

from hypothesis import given
from hypothesis import strategies as st

from libs.fairness import FairQueue


def filled(*items: tuple[str, int]) -> FairQueue[tuple[str, int]]:
    queue = FairQueue[tuple[str, int]]()
    for item in items:
        queue.put(item[0], item)
    return queue


def test_a_long_queue_costs_the_others_one_turn_each() -> None:
    queue = filled(*(("busy", number) for number in range(50)), ("quiet", 0), ("quiet", 1))
    assert queue.take(4) == [("busy", 0), ("quiet", 0), ("busy", 1), ("quiet", 1)]
    assert len(queue) == 48


def test_the_turn_goes_on_with_the_next_batch() -> None:
    queue = filled(*(("a", number) for number in range(3)), *(("b", number) for number in range(3)))
    assert queue.take(1) + queue.take(1) + queue.take(1) == [("a", 0), ("b", 0), ("a", 1)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=50), st.integers(1, 10))
def test_everything_is_taken_once_and_in_order_within_a_company(items: list[tuple[str, int]], most: int) -> None:
    queue = filled(*items)
    taken = []
    while queue:
        taken += queue.take(most)
    for company in "abc":
        assert [item for item in taken if item[0] == company] == [item for item in items if item[0] == company]
    assert len(taken) == len(items)
    assert queue.take(most) == []

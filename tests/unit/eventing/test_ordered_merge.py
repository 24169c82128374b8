"""The order in which records of partitions of one number are taken."""

import random

import pytest

from libs.eventing._ordered_merge import BufferedRecord, OrderedMerge
from libs.eventing.bus import Partition
from tests.support.seeds import seeds

A, B = Partition("a-events", 0), Partition("b-events", 0)
ALWAYS = {A: float("inf"), B: float("inf")}


def record(
    partition: Partition, offset: int, published: float, fetched: float = 100.0, **options: object
) -> BufferedRecord:
    return BufferedRecord(partition, offset, published, fetched, 10, f"{partition.topic[0]}{offset}", **options)


@pytest.fixture
def merge() -> OrderedMerge[str]:
    merge = OrderedMerge[str]()
    merge.assign([A, B])
    return merge


def take(
    merge: OrderedMerge[str], drained: dict[Partition, float], most: int = 100, most_bytes: int = 10**6
) -> list[str]:
    return [waiting.value for waiting in merge.take(drained, most, most_bytes)]


def test_records_come_by_the_time_of_publishing(merge: OrderedMerge[str]) -> None:
    for each in (record(A, 0, 1.0), record(A, 1, 4.0), record(B, 0, 2.0), record(B, 1, 3.0)):
        merge.add(each)
    assert take(merge, ALWAYS) == ["a0", "b0", "b1", "a1"]


def test_a_record_waits_while_another_partition_could_hold_an_earlier_one(merge: OrderedMerge[str]) -> None:
    merge.add(record(A, 0, 5.0, fetched=100.0))
    assert take(merge, {}) == []
    assert take(merge, {B: 99.4}) == []
    assert take(merge, {B: 99.6}) == ["a0"]
    merge.add(record(A, 1, 6.0, fetched=110.0))
    merge.add(record(B, 0, 4.0, fetched=110.1))
    assert take(merge, {}) == ["b0"]
    assert take(merge, {B: 110.0}) == ["a1"]


def test_a_partition_keeps_its_order_whatever_its_clocks_say(merge: OrderedMerge[str]) -> None:
    for each in (record(A, 0, 9.0), record(A, 1, 1.0), record(B, 0, 5.0)):
        merge.add(each)
    assert take(merge, ALWAYS) == ["b0", "a0", "a1"]


def test_a_record_that_is_not_ready_holds_up_the_partitions_of_its_number_alone() -> None:
    merge = OrderedMerge[str]()
    other = Partition("a-events", 1)
    merge.assign([A, other])
    slow = record(A, 0, 1.0, ready=False)
    for each in (slow, record(A, 1, 2.0), record(other, 0, 3.0)):
        merge.add(each)
    assert take(merge, {}) == ["a0"]  # of the other number
    slow.ready = True
    assert take(merge, {}) == ["a0", "a1"]


def test_batches_are_bounded_and_full_partitions_are_not_polled(merge: OrderedMerge[str]) -> None:
    for offset in range(10):
        merge.add(record(A, offset, float(offset)))
    assert merge.wanted(11, 1000) == {A, B}
    assert merge.wanted(10, 1000) == {B}
    assert merge.wanted(11, 100) == {B}
    assert take(merge, ALWAYS, most=4) == ["a0", "a1", "a2", "a3"]
    assert take(merge, ALWAYS, most_bytes=20) == ["a4", "a5"]
    assert merge.first_offset(A, 99) == 6
    assert merge.first_offset(B, 99) == 99
    assert merge.waiting == 4


def test_a_backlog_of_one_number_leaves_room_for_the_others() -> None:
    merge = OrderedMerge[str]()
    partitions = [Partition("a-events", number) for number in range(3)]
    merge.assign(partitions)
    for partition in partitions:
        for offset in range(50):
            merge.add(record(partition, offset, float(offset)))
    taken = [waiting.partition for _ in range(3) for waiting in merge.take({}, 10, 10**6)]
    assert set(taken) == set(partitions)


@pytest.mark.rule(29)
@seeds(50)
def test_what_was_published_a_second_earlier_comes_first(seed: int) -> None:
    """Records arrive at random, each partition is asked at least every half second, clocks differ by 0.2 s."""
    chance = random.Random(seed)
    merge = OrderedMerge[float]()
    partitions = [Partition(topic, 0) for topic in "abc"]
    merge.assign(partitions)
    skew = {partition: chance.uniform(-0.1, 0.1) for partition in partitions}
    logs: dict[Partition, list[float]] = {p: sorted(chance.uniform(0, 20) for _ in range(40)) for p in partitions}
    read = dict.fromkeys(partitions, 0)
    drained: dict[Partition, float] = {}
    taken: list[float] = []
    now = 0.0
    while now < 30:
        now += chance.uniform(0.01, 0.15)
        for partition in partitions:
            if chance.random() < 0.5 and now - drained.get(partition, 0.0) < 0.4:
                continue
            log = logs[partition]
            fresh = [at for at in log[read[partition] :] if at <= now][: chance.randint(1, 5)]
            for at in fresh:
                merge.add(BufferedRecord(partition, read[partition], at + skew[partition], now, 1, at))
                read[partition] += 1
            if all(at > now for at in log[read[partition] :]):
                drained[partition] = now
        taken += [waiting.value for waiting in merge.take(drained, 100, 10**6)]
    assert sorted(taken) == sorted(at for log in logs.values() for at in log)
    latest = 0.0
    for at in taken:
        assert at > latest - 1.0
        latest = max(latest, at)

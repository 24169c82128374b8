"""Keys side by side, one key in order; offsets; partitions that come and go."""

import asyncio
from collections import Counter

import pytest

from libs.eventing.bus import Partition
from tests.support.waiting import elapse, until
from tests.unit.eventing.consumer.conftest import TOPIC, Group, Handler, send

pytestmark = pytest.mark.virtual_time


async def test_keys_go_on_beside_each_other_and_one_key_in_order(group: Group) -> None:
    handler = Handler()
    released = handler.blocks(b"a1")
    await send(group, "a", b"a1", b"a2", b"a3")
    await send(group, "b", b"b1", b"b2")
    group.join(handler)

    await until(lambda: handler.done == [b"b1", b"b2"])
    assert handler.started.count(b"a2") == 0
    released.set()
    await until(lambda: len(handler.done) == 5)
    assert [value for value in handler.done if value.startswith(b"a")] == [b"a1", b"a2", b"a3"]


@pytest.mark.rule(26)
async def test_offsets_are_committed_only_past_what_is_done(group: Group) -> None:
    handler = Handler()
    released = handler.blocks(b"a1")
    await send(group, "b", b"b0")
    await send(group, "a", b"a1")
    await send(group, "b", b"b1", b"b2")
    group.join(handler)

    await until(lambda: b"b2" in handler.done and group.committed() == 1)
    released.set()
    await until(lambda: group.committed() == 4)


async def test_a_revoked_partition_is_drained_and_its_position_handed_on(group: Group) -> None:
    first, second = Handler(), Handler()
    released = first.blocks(b"a1")
    await send(group, "a", b"a1", b"a2", b"a3")
    old = group.join(first)
    await until(lambda: first.started == [b"a1"])

    revoked = asyncio.create_task(old.revoked(frozenset({Partition(TOPIC, 0)})))
    await elapse(1)
    released.set()
    await revoked
    assert first.done == [b"a1"]
    assert group.committed() == 1
    await group.leave(old)
    group.join(second)
    await until(lambda: second.done == [b"a2", b"a3"])


async def test_what_does_not_end_in_time_is_cancelled_and_read_again(group: Group) -> None:
    first, second = Handler(), Handler()
    released = first.blocks(b"a1")
    await send(group, "a", b"a1", b"a2")
    old = group.join(first)
    await until(lambda: first.started == [b"a1"])
    group.join(second)  # with one partition and two members the first one keeps it

    await until(lambda: first.cancelled != [])
    released.set()
    await until(lambda: first.done == [b"a1", b"a2"])
    await until(lambda: group.committed() == 2)
    await group.leave(old)
    assert second.done == []


async def test_stopping_hands_back_what_is_not_done(group: Group) -> None:
    first, second = Handler(), Handler()
    first.blocks(b"a1")
    await send(group, "b", b"b0")
    await send(group, "a", b"a1", b"a2")
    loop = group.join(first)
    await until(lambda: b"a1" in first.started and b"b0" in first.done)
    await group.leave(loop)
    assert not loop.joined
    assert first.cancelled == [b"a1"]
    assert group.committed() == 1
    group.join(second)
    await until(lambda: second.done == [b"a1", b"a2"])


async def test_a_lost_broker_is_joined_again_and_nothing_stays_behind(group: Group) -> None:
    handler = Handler()
    handler.blocks(b"a1")
    await send(group, "a", b"a1", b"a2")
    loop = group.join(handler)
    await until(lambda: handler.started == [b"a1"])
    group.bus.down = True
    await until(lambda: not loop.joined)
    handler.behaviours.clear()
    group.bus.down = False
    await until(lambda: loop.joined and group.committed() == 2)
    assert loop._over_limit() is False
    await send(group, "a", b"a3")
    await until(lambda: group.committed() == 3)
    assert handler.done[-1] == b"a3"


async def test_a_member_that_waits_for_its_broker_can_be_stopped(group: Group) -> None:
    group.bus.down = True
    loop = group.join(Handler())
    await elapse(60)
    left_at = asyncio.get_running_loop().time()

    await group.leave(loop)

    assert not loop.joined
    assert asyncio.get_running_loop().time() - left_at <= 1


async def test_too_much_in_work_pauses_the_fetching(group: Group) -> None:
    handler = Handler()
    gates = [handler.blocks(b"%d" % number) for number in range(10)]
    for number in range(10):
        await send(group, f"key-{number}", b"%d" % number)
    group.join(handler, high_water=10)
    await until(lambda: len(handler.started) == 10)
    await send(group, "later", b"late")
    await elapse(60)
    assert b"late" not in handler.started
    for gate in gates:
        gate.set()
    await until(lambda: b"late" in handler.done)


async def test_two_members_do_everything_once(group: Group) -> None:
    group.bus.partitions = 4
    first, second = Handler(), Handler()
    loop, other = group.join(first), group.join(second)
    await until(lambda: loop.joined and other.joined)
    await elapse(1)
    for number in range(100):
        await send(group, f"key-{number}", b"%d" % number)
    await until(lambda: group.committed() == 100)
    counts = Counter([*first.done, *second.done])
    assert len(counts) == 100
    assert set(counts.values()) == {1}
    assert first.done
    assert second.done

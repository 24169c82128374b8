"""Messages that fail: tried again, given up, or dead-lettered."""

import psycopg
import pytest

from libs.contracts.messages import PoisonMessage
from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing.bus import BusUnavailable, Record
from libs.eventing.dead_letters import DeadLetters
from tests.support.memory_bus import MemoryBus
from tests.support.waiting import elapse, until
from tests.unit.eventing.consumer.conftest import DEAD, TOPIC, Clock, Group, Handler, send

pytestmark = pytest.mark.virtual_time


async def test_a_failure_is_tried_again_uncommitted_while_other_keys_go_on(group: Group) -> None:
    handler = Handler()
    handler.fails(b"a1", RuntimeError("not now"))
    await send(group, "a", b"a1", b"a2")
    await send(group, "b", b"b1")
    group.join(handler)

    await until(lambda: handler.started.count(b"a1") >= 5 and b"b1" in handler.done)
    await elapse(5)
    assert group.committed() == 0
    assert b"a2" not in handler.started
    handler.behaviours.clear()
    await until(lambda: group.committed() == 3)
    assert group.bus.records(DEAD) == []


async def test_poison_goes_to_the_dead_letters_with_its_reason(group: Group) -> None:
    handler = Handler()
    handler.fails(b"a1", PoisonMessage("makes no sense"))
    await send(group, "a", b"a0", b"a1", b"a2")
    group.join(handler)

    await until(lambda: group.committed() == 3)
    [(given_up, cause)] = handler.given_up
    assert (given_up, cause.partition(" at ")[0]) == (b"a1", "PoisonMessage")
    (letter,) = group.bus.records(DEAD)
    headers = dict(letter.headers)
    assert (letter.key, letter.value, headers["h"]) == ("a", b"a1", b"1")
    assert headers["dlq_reason"] == b"makes no sense"
    assert (headers["dlq_topic"], headers["dlq_partition"], headers["dlq_offset"]) == (TOPIC.encode(), b"0", b"1")
    assert handler.done == [b"a0", b"a2"]


async def test_what_the_database_can_never_store_is_given_up_at_once(group: Group) -> None:
    handler = Handler()
    handler.fails(b"a1", psycopg.DataError("NUL"))
    await send(group, "a", b"a1", b"a2")
    group.join(handler)

    await until(lambda: group.committed() == 2)
    assert (handler.started, handler.done) == ([b"a1", b"a2"], [b"a2"])
    assert [value for value, _ in handler.given_up] == [b"a1"]
    (letter,) = group.bus.records(DEAD)
    assert dict(letter.headers)["dlq_reason"] == b"DataError('NUL')"


async def test_the_offset_waits_for_the_dead_letter(group: Group) -> None:
    handler = Handler()
    handler.fails(b"a1", PoisonMessage("no"))
    broken = [True]

    async def give_up(record: Record, cause: str) -> None:
        if broken[0]:
            raise BusUnavailable("the outcome cannot be recorded")

    handler.give_up = give_up  # type: ignore[method-assign]
    await send(group, "a", b"a1")
    group.join(handler)
    await until(lambda: handler.started != [])
    await elapse(5)
    assert group.committed() == 0
    assert group.bus.records(DEAD) == []
    broken[0] = False
    await until(lambda: group.committed() == 1)
    assert len(group.bus.records(DEAD)) == 1


async def test_a_failure_is_given_up_when_its_time_is_over(group: Group, clock: Clock) -> None:
    handler = Handler()
    handler.fails(b"a1", RuntimeError("never"))
    await send(group, "a", b"a1")
    group.join(handler)
    await until(lambda: len(handler.started) >= 3)
    clock.now = 899
    seen = len(handler.started)
    await until(lambda: len(handler.started) >= seen + 3)
    assert handler.given_up == []
    clock.now = 900
    await until(lambda: group.committed() == 1)
    [(_, cause)] = handler.given_up
    assert cause.startswith("RuntimeError at ")
    assert "never" not in cause
    headers = dict(group.bus.records(DEAD)[0].headers)
    assert headers["dlq_reason"] == b"RuntimeError('never')"
    assert int(headers["dlq_attempts"]) == len(handler.started)


@pytest.mark.parametrize("locked", [psycopg.errors.LockNotAvailable("held"), psycopg.errors.DeadlockDetected("of two")])
async def test_locks_that_are_never_free_are_given_up(group: Group, clock: Clock, locked: Exception) -> None:
    handler = Handler()
    handler.fails(b"a1", locked)
    await send(group, "a", b"a1")
    group.join(handler)
    await until(lambda: len(handler.started) >= 2)
    clock.now = 900
    await until(lambda: group.committed() == 1)
    [(_, cause)] = handler.given_up
    assert cause.startswith(f"{type(locked).__name__} at ")


@pytest.mark.parametrize("outage", [BusUnavailable("down"), psycopg.OperationalError("down")])
async def test_an_outage_is_never_given_up_and_does_not_count(group: Group, clock: Clock, outage: Exception) -> None:
    handler = Handler()
    handler.fails(b"a1", outage)
    await send(group, "a", b"a1")
    group.join(handler)
    await until(lambda: len(handler.started) >= 2)
    clock.now = 100_000
    seen = len(handler.started)
    await until(lambda: len(handler.started) >= seen + 3)

    handler.fails(b"a1", RuntimeError("once more"), times=3)
    await until(lambda: handler.done == [b"a1"])
    assert handler.given_up == []


async def test_a_dead_letter_that_its_headers_make_too_large_has_no_value() -> None:
    bus = MemoryBus()
    inner = bus.producer()

    class Picky:
        healthy = True

        async def send(self, topic, key, value, headers):
            size = len(value) + sum(len(name) + len(content) for name, content in headers)
            return await inner.send(topic, key, value if size <= MAX_MESSAGE_BYTES else value + b"x" * size, headers)

    value = b"v" * MAX_MESSAGE_BYTES
    record = Record(TOPIC, 0, 7, "key", value, ())
    await DeadLetters(Picky(), consumer="things").put(record, reason="too bad", attempts=1)  # type: ignore[arg-type]
    (letter,) = bus.records(DEAD)
    assert letter.value == b""
    assert dict(letter.headers)["dlq_omitted_bytes"] == str(len(value)).encode()
    assert dict(letter.headers)["dlq_offset"] == b"7"

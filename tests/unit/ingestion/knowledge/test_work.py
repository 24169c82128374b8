"""Work keys are encoded into messages and decoded from them."""

import pytest

from services.ingestion.adapters.kafka import KafkaWorkSender, grouped
from services.ingestion.domain.runs import Due, ItemKey, RunKey, WorkKey, decode_work, encode_work
from tests.support.fake_producer import FakeProducer


def items(count: int, correlation: str = "c") -> list[Due]:
    return [Due(ItemKey("index", f"file-{number}"), "company", correlation) for number in range(count)]


def test_what_is_encoded_is_decoded() -> None:
    keys: list[WorkKey] = [RunKey("run"), ItemKey("index", "file")]

    assert decode_work(encode_work(keys)) == keys


@pytest.mark.parametrize("value", [b"", b"nonsense", b"7", b"[7]", b'[["a","b","c"]]'])
def test_what_is_no_work_is_passed_over(value: bytes) -> None:
    assert decode_work(value) == []


@pytest.mark.parametrize(("count", "messages"), [(1, 1), (8, 8), (24, 8), (256, 8), (800, 25)])
def test_work_spreads_in_few_messages(count: int, messages: int) -> None:
    found = grouped(items(count))

    assert len(found) == messages
    assert [due for message in found for due in message] == items(count)


def test_correlations_are_kept_apart() -> None:
    found = grouped([*items(3, "a"), *items(3, "b")])

    assert all(len({due.correlation_id for due in message}) == 1 for message in found)


async def test_messages_are_keyed_by_correlation_and_item() -> None:
    producer = FakeProducer()

    unsent = await KafkaWorkSender(producer, source="/aes/ingestion").send(items(2))

    assert unsent == []
    assert [key for _, key, _, _ in producer.delivered] == ["c/file-0", "c/file-1"]


async def test_what_the_bus_does_not_take_is_given_back() -> None:
    producer = FakeProducer()
    producer.down = True

    assert await KafkaWorkSender(producer, source="/aes/ingestion").send(items(2)) == items(2)

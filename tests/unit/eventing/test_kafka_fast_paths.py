"""Stand-ins for code of aiokafka give the same bytes, records and partitions."""

import random
from io import BytesIO
from typing import Any

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v11, FetchResponse_v11

from libs.eventing._kafka_fast_paths import FastFetchRequest, FastFetchResponse, install_fast_fetches, partition_of

_NEWEST = {1: (4, 17)}


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # Of the test of Kafka's own murmur2, without the sign.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_have_kafkas_partitions(key: bytes, hashed: int) -> None:
    assert partition_of(key, range(2**31), ()) == hashed & 0x7FFFFFFF


def test_keys_have_the_partitions_that_they_had() -> None:
    drawn = random.Random(17)
    before = DefaultPartitioner()
    for partitions in ([0], list(range(6)), list(range(12))):
        for size in range(130):
            key = drawn.randbytes(size)
            assert partition_of(key, partitions, partitions) == before(key, partitions, partitions)


def _request(topics: dict[str, int], rack: str = "") -> FetchRequest:
    wanted = [(name, [(each, 2**40 + each, 2**21) for each in range(count)]) for name, count in topics.items()]
    return FetchRequest(500, 1, 2**25, 0, wanted, rack)


@pytest.mark.parametrize("topics", [{}, {"runtime-events": 12}, {"a": 1, "über": 0, "c" * 200: 30}])
def test_a_request_has_the_same_bytes(topics: dict[str, int]) -> None:
    request = _request(topics, rack="räck")
    assert request.build(FastFetchRequest).encode() == request.build(FetchRequest_v11).encode()


def _answer(drawn: random.Random, *, aborted: list[tuple[int, int]] | None = None) -> bytes:
    def partition(number: int) -> tuple[Any, ...]:
        messages = drawn.choice([None, b"", drawn.randbytes(drawn.randrange(2000))])
        offsets = [drawn.randrange(2**62) for _ in range(3)]
        return (number, drawn.randrange(-1, 90), *offsets, aborted, drawn.randrange(-1, 5), messages)

    topics = [(f"topic-{n}-ä", [partition(each) for each in range(drawn.randrange(40))]) for n in range(5)]
    encoded: bytes = FetchResponse_v11(drawn.randrange(9), 0, drawn.randrange(2**31), topics).encode()
    return encoded


@pytest.mark.parametrize("aborted", [None, [], [(7, 8), (9, 10)]])
def test_an_answer_has_the_same_content(aborted: list[tuple[int, int]] | None) -> None:
    drawn = random.Random(18)
    for _ in range(20):
        # The header of an answer has been read when its body is.
        data = b"head" + _answer(drawn, aborted=aborted)
        before, after = BytesIO(data), BytesIO(data)
        before.seek(4)
        after.seek(4)
        read = FastFetchResponse.decode(after)
        assert vars(read) == vars(FetchResponse_v11.decode(before))


def test_an_answer_that_is_cut_off_is_refused() -> None:
    data = FetchResponse_v11(0, 0, 0, [("t", [(0, 0, 9, 9, 0, None, -1, b"messages")])]).encode()
    for end in range(1, len(data)):
        with pytest.raises(Exception, match=r"cut off|unpack_from requires"):
            FastFetchResponse.decode(BytesIO(data[:end]))


def test_brokers_that_know_the_version_are_asked_by_it() -> None:
    install_fast_fetches()
    install_fast_fetches()
    request = _request({"t": 1})
    assert type(request.prepare(_NEWEST)) is FastFetchRequest
    assert type(request.prepare({1: (0, 11)})) is FastFetchRequest
    # An older broker is asked in aiokafka's own way.
    assert request.prepare({1: (0, 10)}).API_VERSION == 10

"""JSON as strangers send it."""

import pytest

from libs.json_text import (
    NotJson,
    PairedText,
    is_deeper,
    read_json,
    without_half_escapes,
    without_half_pairs,
    write_json,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'["\ud83d\ude00"]', ["😀"]),
        (rb'["\ud83d"]', ["�"]),
        (rb'["\ude00 \ud83d"]', ["� �"]),
        (rb'{"\ud83d": {"a": ["x\ud83d"]}}', {"�": {"a": ["x�"]}}),
        (rb'["\\ud83d"]', [r"\ud83d"]),
        (b'["\xed\xa0\xbd\xed\xb8\x80"]', ["😀"]),
        (b'["a\xff"]', ["a�"]),
        (b"[9223372036854775808, 18446744073709551616]", [2**63, 2**64]),
        (b"[-123456789012345678901234567890]", [-123456789012345678901234567890]),
        (b"[0.12345678901234567890123]", [0.12345678901234568]),
        (b"[18446744073709551616, 1.5, true, null]", [2**64, 1.5, True, None]),
    ],
)
def test_what_can_be_read_is_read(text: bytes, value: object) -> None:
    assert read_json(text) == value
    assert [type(item) for item in read_json(b"[18446744073709551616, 1.0]")] == [int, float]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[NaN]", b"[-Infinity]", b"[1e999]", b"[" * 5000, b"[" + b"1" * 5000 + b"]"]
)
def test_other_texts_are_not_json(text: bytes) -> None:
    with pytest.raises(NotJson):
        read_json(text)


def test_a_tolerant_reader_keeps_halves_and_has_null_for_no_numbers() -> None:
    text = r'["\ud83d", NaN, Infinity, -Infinity, 1e999]'
    assert read_json(text, nan_as_null=True) == ["�", None, None, None, None]
    assert read_json(text, nan_as_null=True, keep_half_pairs=True) == ["\ud83d", None, None, None, None]


def test_integers_of_any_size_are_written() -> None:
    value = {"b": [2**64, -(2**63) - 1, 1.5], "a": {"c": True, "d": (2**70,)}}
    assert read_json(write_json(value)) == {**value, "a": {"c": True, "d": [2**70]}}
    assert write_json(value, sort_keys=True).startswith(b'{"a":{"c":true,"d":[1180591620717411303424]}')


def test_the_depth_of_a_value() -> None:
    assert [is_deeper({"a": [1]}, levels) for levels in (1, 2)] == [True, False]


def test_what_is_no_json_is_not_written() -> None:
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    for value in (object(), "\ud83d", nested):
        with pytest.raises(TypeError):
            write_json(value)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["\ud83d", "\ude00"], "😀"),
        (["a\ud83d", "\ude00b"], "a😀b"),
        (["a\ud83d"], "a�"),
        (["\ud83d", "b"], "�b"),
        (["\ud83d", "\ud83d", "\ude00"], "�😀"),
        (["\ude00"], "�"),
        (["\ud83d", "", "\ude00"], "😀"),
    ],
)
def test_pairs_that_are_split_over_pieces_are_joined(pieces: list[str], text: str) -> None:
    paired = PairedText()
    assert "".join([*(paired.take(piece) for piece in pieces), paired.finish()]) == text
    assert without_half_pairs("".join(pieces)) == text


@pytest.mark.parametrize(
    ("document", "without"),
    [
        (rb'{"a": "\ud83d\ude00"}', '{"a": "😀"}'),
        (rb'{"a": "\uD83D"}', '{"a": "�"}'),
        (rb'["\ude00\ud83d"]', '["��"]'),
        (rb'["\ud83d\u0041\n"]', r'["�\u0041\n"]'),
        (rb'["\\ud83d", "\\\ud83d"]', r'["\\ud83d", "\\�"]'),
        (rb'["\u00e9\ud7ff"]', r'["\u00e9\ud7ff"]'),
    ],
)
def test_escaped_halves_are_replaced(document: bytes, without: str) -> None:
    assert without_half_escapes(document).decode() == without

from datetime import UTC, datetime

import pytest

from services.runtime.adapters.models.failures import redact, retry_after_seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:05 GMT"}, 5.0),
        ({"retry-after": "Fri, 20 Nov 2026 09:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    now = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
    assert retry_after_seconds(headers, lambda: now) == seconds


@pytest.mark.parametrize(
    "message",
    [
        "Incorrect API key provided: sk-proj-abcdef123456.",
        "bad key hidden-value",
        "Authorization: Bearer hidden-value",
        "GET https://host/v1?key=hidden-value failed",
        "proxy https://user:hidden-value@host",
        "AIzaSyA1234567890abcdef is not valid",
        "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ],
)
def test_messages_hold_no_secret(message: str) -> None:
    cleaned = redact(message, ["hidden-value"])
    assert "***" in cleaned
    for secret in ("hidden-value", "abcdef", "eyJ"):
        assert secret not in cleaned


def test_messages_are_one_short_line() -> None:
    assert redact("a\n b" + "c" * 1000).startswith("a bccc")
    assert len(redact("x" * 1000)) == 500


def test_ordinary_words_stay() -> None:
    message = "The model `gpt-6-luna` does not exist or you do not have access to it."
    assert redact(message) == message

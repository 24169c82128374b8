"""`aes up` beside a program that has the gateway's usual port."""

import pytest

from cli.up import _moved


def test_a_port_that_was_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AES_GATEWAY_PORT", raising=False)
    assert _moved("http://127.0.0.1:8080") == ""
    assert "AES_GATEWAY_PORT=8080 ./aes up" in _moved("http://127.0.0.1:20321")


def test_a_port_that_was_asked_for_needs_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_GATEWAY_PORT", "9000")
    assert _moved("http://127.0.0.1:9000") == ""

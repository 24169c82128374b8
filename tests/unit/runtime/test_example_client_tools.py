"""The example of client tools, without a service."""

import sys

import pytest

from deploy.local.ports import choose_free
from examples import run_client_tools


def test_a_service_that_cannot_be_reached_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"http://127.0.0.1:{choose_free()}"
    monkeypatch.setattr(run_client_tools, "LONGEST_OUTAGE_SECONDS", -1)
    monkeypatch.setattr(sys, "argv", ["run_client_tools.py", address, "Hello"])

    assert run_client_tools.main() == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: Couldn't connect to {address}: ")
    assert "Connection refused" in line


def test_a_failure_to_print_is_not_a_failure_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, _: str) -> int:
            raise BrokenPipeError

    answer = {"session_id": "1", "response": {"content": "Hello"}}
    monkeypatch.setattr(run_client_tools.Service, "post", lambda *_, **__: answer)
    monkeypatch.setattr(sys, "argv", ["run_client_tools.py", "http://127.0.0.1:8080", "Hello"])
    monkeypatch.setattr(sys, "stdout", Closed())

    with pytest.raises(BrokenPipeError):
        run_client_tools.main()

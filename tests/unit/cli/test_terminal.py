import pytest

from cli.progress import Progress
from cli.terminal import print_table
from deploy.local.state import ProcessState, StackState

_ID = "0b0c61f2-5d5b-4b8e-9a44-7a0c7d4a2f10"


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_table_that_is_too_wide_becomes_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "name", "expires", "user"), [(_ID, "ci", None, _ID), (_ID, "x" * 90, "never", _ID)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [f"id       {_ID}", "name     ci", f"user     {_ID}", ""]
    assert f"name     {'x' * 90}" in lines


def test_a_table_that_fits_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "name"), [(_ID, "ci")])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["id", "name"], [_ID, "ci"]]


def test_without_a_terminal_rows_are_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS")
    print_table(("id", "topic", "user"), [(_ID, _ID, _ID)])
    assert capsys.readouterr().out.splitlines()[1].split() == [_ID] * 3


def test_a_stop_shows_nothing_as_ready(capsys: pytest.CaptureFixture[str]) -> None:
    state = StackState(phase="stopping")
    state.parts = {"gateway": ProcessState("gateway", "stopping"), "kafka": ProcessState("kafka", "ready", seconds=2.0)}
    with Progress() as progress:
        progress.show(state)
        state.parts["kafka"].state = "stopped"
        progress.show(state)
    told = capsys.readouterr().err
    assert "ready" not in told
    assert "kafka" in told

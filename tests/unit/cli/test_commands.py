"""Commands of the command line: what is wrong with a call, what they print, and where they lead."""

from pathlib import Path

import httpx
import pytest
from aes_client.models import TokenReply
from typer.core import TyperCommand
from typer.testing import CliRunner

from cli import dlq as command
from cli import up
from cli.app import COMMANDS, app
from cli.commands import Commands
from cli.connection import Connection
from cli.databases import connection_problem
from cli.installation import bus_address
from cli.progress import Progress
from cli.terminal import print_table
from cli.up import _moved
from deploy.local.state import ProcessState, StackState
from tests.unit.cli.service import document, serve


@pytest.mark.parametrize(("given", "hint"), [("statsu", "Did you mean 'status'?"), ("frobnicate", "aes --help")])
def test_an_unknown_command_is_answered_with_a_similar_one(given: str, hint: str) -> None:
    refused = CliRunner().invoke(app, [given], prog_name="aes")
    assert refused.exit_code == 2
    assert f"Unknown command '{given}'" in refused.output
    assert hint in refused.output


@pytest.mark.parametrize("group", [name for name, entry in COMMANDS.items() if isinstance(entry.load(), Commands)])
def test_a_group_answers_an_unknown_command_as_well(group: str) -> None:
    refused = CliRunner().invoke(app, [group, "frobnicate"], prog_name="aes")
    assert refused.exit_code == 2
    assert "Unknown command 'frobnicate'" in refused.output


def test_every_group_of_commands_is_one_of_those() -> None:
    assert {type(entry.load()) for entry in COMMANDS.values()} == {Commands, TyperCommand}
    similar = CliRunner().invoke(app, ["actions", "aprove"], prog_name="aes")
    assert "Did you mean 'approve'?" in similar.output


def test_a_command_that_only_shares_letters_is_not_suggested() -> None:
    assert "Did you mean" not in CliRunner().invoke(app, ["bogus"], prog_name="aes").output


def test_the_help_of_the_tests_is_that_of_the_command() -> None:
    told = CliRunner().invoke(app, ["test", "--help"], prog_name="aes")
    assert told.exit_code == 0
    assert "./aes test -- --help" in told.output


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("keys rotate", "aes keys rotate [OPTIONS] {KEY-ID}\n"),
        ("kb search", "aes kb search [OPTIONS] {KNOWLEDGE-BASE} {QUERY}...\n"),
        ("logs --nonsense", "aes logs [OPTIONS] [SERVICE]\n"),
    ],
)
def test_a_usage_error_names_arguments_in_capitals(command: str, usage: str) -> None:
    refused = CliRunner().invoke(app, command.split(), prog_name="aes")
    assert refused.exit_code == 2
    assert f"Usage: {usage}" in refused.output


def test_a_database_that_is_not_there_is_told_once_without_its_password() -> None:
    address = "postgresql://me:secret@127.0.0.1:1/gateway"
    refused = CliRunner().invoke(app, ["companies", "list", "--database-url", address], prog_name="aes")
    assert refused.exit_code == 1
    assert "Connection refused" in refused.output
    assert refused.output.count("Couldn't reach") == 1
    assert "secret" not in refused.output


def test_an_address_that_is_none_is_not_repeated() -> None:
    assert connection_problem("me:secret") == "its address isn't a PostgreSQL URL"


def test_without_a_broker_it_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("AES_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    result = CliRunner().invoke(command.app, ["list", "--json"])

    assert result.exit_code == 1
    assert "aes up" in result.stderr
    monkeypatch.setenv("AES_KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    assert bus_address().servers == "kafka:9092"


def test_a_port_that_was_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AES_GATEWAY_PORT", raising=False)
    assert _moved("http://127.0.0.1:8080") == ""
    assert "AES_GATEWAY_PORT=8080 ./aes up" in _moved("http://127.0.0.1:20321")


def test_a_port_that_was_asked_for_needs_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_GATEWAY_PORT", "9000")
    assert _moved("http://127.0.0.1:9000") == ""


CONNECTION = Connection("http://127.0.0.1:9", "aes_key")


def test_the_token_stands_in_the_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, lambda _: httpx.Response(200, json=document(TokenReply, access_token="a.b.c")))
    assert CONNECTION.studio_link() == "http://127.0.0.1:9/studio/#token=a.b.c"
    assert CONNECTION.studio_link("http://agents.example") == "http://agents.example/studio/#token=a.b.c"


def test_up_prints_the_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve(monkeypatch, lambda _: httpx.Response(200, json=document(TokenReply, access_token="a.b.c")))
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    monkeypatch.setattr(up, "bring_up", lambda *_: (StackState(base_url="http://127.0.0.1:9"), True))
    monkeypatch.setattr(up, "development_key", lambda _: "aes_key")
    shown = CliRunner().invoke(up.app, [])
    assert "http://127.0.0.1:9/studio/#token=a.b.c" in shown.output, shown.output


def test_without_a_token_it_is_the_plain_address_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CONNECTION.studio_link() == "http://127.0.0.1:9/studio/"
    pauses = serve(monkeypatch, lambda _: httpx.Response(503))
    assert CONNECTION.studio_link() == "http://127.0.0.1:9/studio/"
    assert pauses == []


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

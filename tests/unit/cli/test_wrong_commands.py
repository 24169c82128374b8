"""Messages of the command line about wrong commands."""

import pytest
from typer.core import TyperCommand
from typer.testing import CliRunner

from cli.app import COMMANDS, app
from cli.commands import Commands
from cli.databases import connection_problem


@pytest.mark.parametrize(("given", "hint"), [("statsu", "Did you mean status"), ("frobnicate", "aes --help")])
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
    assert "Did you mean approve?" in similar.output


def test_the_help_of_the_tests_is_that_of_the_command() -> None:
    told = CliRunner().invoke(app, ["test", "--help"], prog_name="aes")
    assert told.exit_code == 0
    assert "./aes test -- --help" in told.output


def test_a_database_that_is_not_there_is_told_once_without_its_password() -> None:
    address = "postgresql://me:secret@127.0.0.1:1/gateway"
    refused = CliRunner().invoke(app, ["companies", "list", "--database-url", address], prog_name="aes")
    assert refused.exit_code == 1
    assert "Connection refused" in refused.output
    assert refused.output.count("Couldn't reach") == 1
    assert "secret" not in refused.output


def test_an_address_that_is_none_is_not_repeated() -> None:
    assert connection_problem("me:secret") == "its address isn't a PostgreSQL URL"

"""Messages of the command line about wrong commands."""

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.databases import connection_problem


@pytest.mark.parametrize(("given", "hint"), [("statsu", "Did you mean status"), ("frobnicate", "aes --help")])
def test_an_unknown_command_is_answered_with_a_similar_one(given: str, hint: str) -> None:
    refused = CliRunner().invoke(app, [given], prog_name="aes")
    assert refused.exit_code == 2
    assert f"There is no command '{given}'" in refused.output
    assert hint in refused.output


def test_a_database_that_is_not_there_is_told_once_without_its_password() -> None:
    address = "postgresql://me:secret@127.0.0.1:1/gateway"
    refused = CliRunner().invoke(app, ["companies", "list", "--database-url", address], prog_name="aes")
    assert refused.exit_code == 1
    assert "Connection refused" in refused.output
    assert refused.output.count("cannot be reached") == 1
    assert "secret" not in refused.output


def test_an_address_that_is_none_is_not_repeated() -> None:
    assert connection_problem("me:secret") == "its address is not a PostgreSQL URL"

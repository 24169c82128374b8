"""What the command line says to those who mistype."""

import pytest
from typer.testing import CliRunner

from cli.app import app


@pytest.mark.parametrize(("given", "hint"), [("statsu", "Did you mean status"), ("frobnicate", "aes --help")])
def test_an_unknown_command_is_answered_with_a_similar_one(given: str, hint: str) -> None:
    refused = CliRunner().invoke(app, [given], prog_name="aes")
    assert refused.exit_code == 2
    assert f"There is no command '{given}'" in refused.output
    assert hint in refused.output

import tomllib
from pathlib import Path

from typer.testing import CliRunner

from cli.app import app


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    printed = CliRunner().invoke(app, ["--version"])
    assert (printed.exit_code, printed.output) == (0, f"aes {project['version']}\n")

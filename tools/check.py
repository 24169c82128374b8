"""The `aes check` command: linters, the type checker, import rules, and the rules of `tools/lint`."""

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

app = typer.Typer(add_completion=False)


class Check(StrEnum):
    RUFF = "ruff"
    MYPY = "mypy"
    IMPORTS = "imports"
    HOUSE = "house"


Commands = list[tuple[str, ...]]
_COMMANDS: Final[dict[Check, Commands]] = {
    Check.RUFF: [("ruff", "check", "."), ("ruff", "format", "--check", ".")],
    # The client also supports older versions of Python.
    Check.MYPY: [("mypy",), ("mypy", "--python-version", "3.10", "--package", "aes_client")],
    Check.IMPORTS: [("lint-imports", "--no-logo")],
    Check.HOUSE: [("python", "-m", "tools.lint")],
}
_FIXING: Final[Commands] = [("ruff", "check", "--fix-only", "--exit-zero", "."), ("ruff", "format", ".")]


@app.command()
def check(
    only: Annotated[list[Check] | None, typer.Argument(help="Checks to run.", show_default="all")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="First apply ruff's fixes and format the code.")] = False,
) -> None:
    """Run the linters and the type checker, and check the import rules and the project's own rules.

    Exits with 1 if a check fails.
    """
    from deploy.local.home import PROJECT_ROOT

    programs = Path(sys.executable).parent
    failed = []
    for name in only or Check:
        fixing = _FIXING if fix and name == Check.RUFF else []
        for program, *arguments in [*fixing, *_COMMANDS[name]]:
            typer.echo(f"$ {program} {' '.join(arguments)}")
            done = subprocess.run([programs / program, *arguments], cwd=PROJECT_ROOT, env=_environment(programs))
            if done.returncode != 0:
                failed.append(name)
    if failed:
        typer.echo(f"Failed: {', '.join(dict.fromkeys(failed))}", err=True)
        raise typer.Exit(1)


def _environment(programs: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}

"""`aes check`: the linters, the type check, the import rules and the vocabulary."""

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
    VOCABULARY = "vocabulary"


_COMMANDS: Final = {
    Check.RUFF: [("ruff", "check", "."), ("ruff", "format", "--check", ".")],
    # The client is for older versions of Python, too.
    Check.MYPY: [("mypy",), ("mypy", "--python-version", "3.10", "--package", "aes_client")],
    Check.IMPORTS: [("lint-imports", "--no-logo")],
    Check.VOCABULARY: [("python", "-m", "cli.vocabulary")],
}
_FIXING: Final = [("ruff", "check", "--fix-only", "--exit-zero", "."), ("ruff", "format", ".")]


@app.command()
def check(
    only: Annotated[list[Check] | None, typer.Argument(help="Only these.")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Fix what ruff can fix, and format, before.")] = False,
) -> None:
    """Run the linters, the type check, the import rules and the vocabulary; exits with 1 when one finds something."""
    from deploy.local.home import PROJECT_ROOT

    programs = Path(sys.executable).parent
    failed = []
    chosen = [command for name in only or Check for command in _COMMANDS[name]]
    for name, *arguments in [*(_FIXING if fix else ()), *chosen]:
        typer.echo(f"$ {name} {' '.join(arguments)}")
        done = subprocess.run([programs / name, *arguments], cwd=PROJECT_ROOT, env=_environment(programs))
        if done.returncode != 0:
            failed.append(name)
    if failed:
        typer.echo(f"Failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _environment(programs: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}

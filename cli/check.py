"""`aes check`: the linters, the type check, the import rules and the rules of `tools/lint`."""

import os
import subprocess
import sys
from pathlib import Path

import typer

app = typer.Typer(add_completion=False)
_CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    # The client is for older versions of Python, too.
    ("mypy", "--python-version", "3.10", "--package", "aes_client"),
    ("lint-imports", "--no-logo"),
    ("python", "-m", "tools.lint"),
)


@app.command()
def check() -> None:
    """Run the linters, the type check, the import rules and the project's own; exits with 1 on a finding."""
    from deploy.local.home import PROJECT_ROOT

    programs = Path(sys.executable).parent
    failed = []
    for name, *arguments in _CHECKS:
        typer.echo(f"$ {name} {' '.join(arguments)}")
        done = subprocess.run([programs / name, *arguments], cwd=PROJECT_ROOT, env=_environment(programs))
        if done.returncode != 0:
            failed.append(name)
    if failed:
        typer.echo(f"Failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _environment(programs: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}

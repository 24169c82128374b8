"""`aes test`."""

import os
import sys

import typer

app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def test(context: typer.Context) -> None:
    """Run the test suite. Arguments go to pytest."""
    from deploy.local.home import PROJECT_ROOT

    os.chdir(PROJECT_ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *context.args])  # noqa: S606

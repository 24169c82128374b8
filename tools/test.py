"""The `aes test` command."""

import os
import sys

import typer

app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(context: typer.Context) -> None:
    """Run the tests. Slow tests run only with --all.

    Arguments are passed to pytest. To list its options, run: ./aes test -- --help
    """
    from deploy.local.home import PROJECT_ROOT

    os.chdir(PROJECT_ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *context.args])  # noqa: S606

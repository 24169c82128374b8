"""The `aes down` command."""

from typing import Annotated

import typer

from cli.progress import Progress
from cli.terminal import Json, failures_explained, show
from deploy.local.control import purge as delete_state
from deploy.local.control import take_down
from deploy.local.home import Home

app = typer.Typer(add_completion=False)


@app.command()
def down(
    json_output: Json = False,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete all data, including the API key.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
) -> None:
    """Stop the embedded stack: services first, then Kafka and PostgreSQL."""
    home = Home.from_environment()
    if purge and not yes:
        typer.confirm(f"Delete all data in {home.root}?", abort=True, err=True)
    with failures_explained(json_output):
        with Progress() as progress:
            ran = take_down(home, progress.show)
        if purge:
            delete_state(home)
    message = ("Stopped." if ran else "Nothing was running.") + (" All data was deleted." if purge else "")
    show(json_output, {"stopped": ran, "purged": purge}, message)

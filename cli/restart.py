"""The `aes restart` command."""

import time
from typing import Annotated

import typer

from cli.terminal import GREEN, Json, emphasise, failures_explained, note, print_json
from deploy.local.control import parts_of
from deploy.local.control import restart as restart_part
from deploy.local.home import Home

app = typer.Typer(add_completion=False)


@app.command()
def restart(
    services: Annotated[
        list[str] | None,
        typer.Argument(help="Services such as runtime, or processes such as runtime-1.", show_default="all"),
    ] = None,
    json_output: Json = False,
) -> None:
    """Restart services of the embedded stack, one process at a time.

    Each process finishes or releases its work and is ready again before the next one stops. A service with several
    replicas remains available.
    """
    home = Home.from_environment()
    done = []
    with failures_explained(json_output):
        for part in parts_of(home, services or []):
            began = time.monotonic()
            restart_part(home, part)
            seconds = round(time.monotonic() - began, 1)
            done.append({"name": part, "seconds": seconds})
            note(f"{part:<19} {emphasise('ready', GREEN)} after {seconds:.1f} s")
    if json_output:
        print_json({"restarted": done})

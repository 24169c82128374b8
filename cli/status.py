"""The `aes status` command."""

import asyncio

import typer
from rich.console import Console
from rich.table import Table

from cli.progress import SIGNS
from cli.terminal import Json, failures_explained, print_json
from deploy.local.home import Home
from deploy.local.status import Status, read_status

app = typer.Typer(add_completion=False)


@app.command()
def status(json_output: Json = False) -> None:
    """Show the embedded stack's processes and their state.

    Exits with 1 unless the stack is running and every process is ready.
    """
    with failures_explained(json_output):
        current = asyncio.run(read_status(Home.from_environment()))
    if json_output:
        print_json(current.as_json())
    else:
        _print(current)
    if current.state != "running":
        raise typer.Exit(1)


def _print(current: Status) -> None:
    console = Console(highlight=False)
    remedies = {
        "degraded": "Not ready: " + ", ".join(current.unready) + ". Find out why with: ./aes doctor",
        "stopped": "Start the stack with: ./aes up",
        "unsupervised": "The supervisor is gone, so crashed processes aren't restarted. Recover with: ./aes up",
        "failed": f"The last start failed: {current.error}\nTry again with: ./aes up",
    }
    console.print(
        f"[bold]{current.state}[/]  {current.base_url if current.state in ('running', 'degraded') else ''}".rstrip()
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("part", "state", "pid", "port", "restarts", ""):
        table.add_column(heading)
    for name, part in current.parts.items():
        table.add_row(
            name,
            f"[{SIGNS[part.state][1]}]{part.state}[/]",
            str(part.pid or ""),
            str(part.port or ""),
            str(part.restarts or ""),
            f"[dim]{part.detail}[/]",
        )
    if current.parts:
        console.print(table)
    if current.state in remedies:
        console.print(remedies[current.state])

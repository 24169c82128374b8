"""`aes doctor`."""

import asyncio
from typing import TYPE_CHECKING

import typer

from cli.terminal import Json, failures_explained, print_json

if TYPE_CHECKING:
    from cli.doctor.findings import Check, Finding
    from cli.doctor.surroundings import Surroundings

app = typer.Typer(add_completion=False)
_SIGNS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("·", "dim")}


@app.command()
def doctor(json_output: Json = False) -> None:
    """Examine every connection, topic, migration, clock and disk, and say what to do.

    Examines the installation that AES_KAFKA_BOOTSTRAP_SERVERS, AES_<SERVICE>_DATABASE_URL and the like name, else the
    embedded stack. Ends with exit code 1 when a check failed.
    """
    from cli.doctor.findings import examine
    from cli.doctor.surroundings import surroundings

    with failures_explained(json_output):
        around = surroundings()
        findings = asyncio.run(examine(checks_of(around)))
    healthy = all(finding.level != "failed" for finding in findings)
    if json_output:
        found = [finding.as_json() for finding in findings]
        print_json({"examined": around.title, "healthy": healthy, "findings": found})
    else:
        _show(around.title, findings)
    if not healthy:
        raise typer.Exit(1)


def checks_of(around: "Surroundings") -> "list[Check]":
    from cli.doctor.bus import bus_checks
    from cli.doctor.databases import database_checks
    from cli.doctor.machine import machine_checks
    from cli.doctor.neighbours import object_checks, service_checks, weaviate_checks
    from deploy.local.state import StackState

    checks = machine_checks(around.signing_key, around.directories, around.home)
    if around.home is not None and not StackState.read(around.home.state_file).is_supervised():
        # Nothing of a stack that does not run can answer, and that it does not run is said once.
        return checks
    if around.bus is not None:
        checks += bus_checks(around.bus)
    checks += [
        *database_checks(around.databases),
        *service_checks(around.services),
        *object_checks(around.objects),
    ]
    return checks + (weaviate_checks(around.weaviate) if around.weaviate is not None else [])


def _show(title: str, findings: "list[Finding]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(title, "bold"))
    table = Table(box=None, show_header=False, padding=(0, 1))
    for finding in findings:
        sign, style = _SIGNS[finding.level]
        table.add_row(Text(sign, style), Text(finding.check), Text(finding.detail, "dim" if style == "green" else ""))
        if finding.remedy:
            table.add_row("", "", Text(finding.remedy, "cyan"))
    console.print(table)

"""The `aes doctor` command."""

import asyncio

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from cli.doctor.bus import bus_checks
from cli.doctor.databases import database_checks
from cli.doctor.findings import Check, Finding, examine
from cli.doctor.http_checks import object_checks, service_checks, weaviate_checks
from cli.doctor.machine import machine_checks
from cli.installation import Installation, find_installation
from cli.terminal import Json, failures_explained, print_json

app = typer.Typer(add_completion=False)
_SIGNS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("·", "dim")}


@app.command()
def doctor(json_output: Json = False) -> None:
    """Diagnose connections, topics, migrations, clocks and disks, with a remedy for each problem.

    Checks the installation that AES_KAFKA_BOOTSTRAP_SERVERS, AES_<SERVICE>_DATABASE_URL and similar variables point to,
    or the embedded stack. Exits with 1 if a check failed.
    """
    with failures_explained(json_output):
        installation = find_installation()
        findings = asyncio.run(examine(checks_of(installation)))
    healthy = all(finding.level != "failed" for finding in findings)
    if json_output:
        found = [finding.as_json() for finding in findings]
        print_json({"examined": installation.title, "healthy": healthy, "findings": found})
    else:
        _show(installation.title, findings)
    if not healthy:
        raise typer.Exit(1)


def checks_of(installation: Installation) -> list[Check]:
    checks = machine_checks(
        installation.signing_key, installation.secrets_key, installation.directories, installation.home
    )
    if not installation.runs:
        # A stopped stack is reported once, not for each service.
        return checks
    if installation.bus is not None:
        checks += bus_checks(installation.bus)
    checks += [
        *database_checks(installation.databases, installation.secrets_key),
        *service_checks(installation.services),
        *object_checks(installation.objects),
    ]
    return checks + (weaviate_checks(installation.weaviate) if installation.weaviate is not None else [])


def _show(title: str, findings: list[Finding]) -> None:
    console = Console(highlight=False)
    console.print(Text(title, "bold"))
    table = Table("", "", Column(overflow="fold"), box=None, show_header=False, padding=(0, 1))
    for finding in findings:
        sign, style = _SIGNS[finding.level]
        table.add_row(Text(sign, style), Text(finding.check), Text(finding.detail, "dim" if style == "green" else ""))
        if finding.remedy:
            table.add_row("", "", Text(finding.remedy, "cyan"))
    console.print(table)

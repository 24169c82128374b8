"""Step 1: validation of agents in YAML, with errors and hints."""

from typing import Any

from aes_client import Client
from aes_client.models import ErrorDetail, ValidationReport

from cli.demo.materials import Library
from cli.demo.screen import Screen
from deploy.local.errors import StackError


def show(screen: Screen, client: Client, library: Library) -> list[dict[str, Any]]:
    """Validates the broken and the good files; returns the reports."""
    screen.heading(1, "Validate agents given as YAML", "POST /api/v1/agent/validate/")
    screen.line(library.broken_path, "dim")
    screen.quote(_without_comments(library.broken))
    report = client.agents.validate(library.broken)
    reports = [_named(library.broken_path, report)]
    show_report(screen, report)
    for agent in library.agents:
        screen.blank()
        screen.line(agent.path, "dim")
        screen.quote(_without_comments(agent.text))
        report = client.agents.validate(agent.text)
        if agent.model_replaced:
            screen.line(f"with {agent.model} as its model", "cyan")
            report = client.agents.validate(agent.configuration)
        show_report(screen, report)
        if not report.valid:
            raise StackError(f"{agent.path} is not valid here.", "Mend what is listed above, or use another --model.")
        reports.append(_named(agent.path, report))
    return reports


def _named(path: str, report: ValidationReport) -> dict[str, Any]:
    return {"file": path, **report.model_dump(exclude_unset=True)}


def show_report(screen: Screen, report: ValidationReport) -> None:
    for finding in report.errors:
        screen.bad(_place(finding), finding.message)
        if finding.hint:
            screen.hint(finding.hint)
    for finding in report.warnings:
        screen.line(f"note: {_place(finding)} {finding.message}", "yellow")
    if report.config_hash is not None:
        screen.good(f"valid · config_hash {report.config_hash[:12]}…")


def _without_comments(text: str) -> str:
    lines = [line.split("  # ")[0].rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _place(finding: ErrorDetail) -> str:
    return ".".join(map(str, finding.loc))

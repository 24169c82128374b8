"""Step 1: validation of agents in YAML, with errors and hints."""

from typing import Any

from cli.demo.api import Api
from cli.demo.materials import Library
from cli.demo.screen import Screen
from deploy.local.errors import StackError

_PATH = "/agent/validate/"


def show(screen: Screen, api: Api, library: Library) -> list[dict[str, Any]]:
    """Validates the broken and the good files; returns the reports."""
    screen.heading(1, "Validate agents given as YAML", f"POST /api/v1{_PATH}")
    screen.line(library.broken_path, "dim")
    screen.quote(_without_comments(library.broken))
    reports = [{"file": library.broken_path, **api.post_yaml(_PATH, library.broken)}]
    show_report(screen, reports[0])
    for agent in library.agents:
        screen.blank()
        screen.line(agent.path, "dim")
        screen.quote(_without_comments(agent.text))
        report = {"file": agent.path, **api.post_yaml(_PATH, agent.text)}
        if agent.model_replaced:
            screen.line(f"with {agent.model} as its model", "cyan")
            report = {"file": agent.path, **api.post(_PATH, agent.configuration)}
        show_report(screen, report)
        if not report["valid"]:
            raise StackError(f"{agent.path} is not valid here.", "Mend what is listed above, or use another --model.")
        reports.append(report)
    return reports


def show_report(screen: Screen, report: dict[str, Any]) -> None:
    for finding in report["errors"]:
        screen.bad(_place(finding), finding["message"])
        if finding.get("hint"):
            screen.hint(finding["hint"])
    for finding in report["warnings"]:
        screen.line(f"note: {_place(finding)} {finding['message']}", "yellow")
    if report["valid"]:
        screen.good(f"valid · config_hash {report['config_hash'][:12]}…")


def _without_comments(text: str) -> str:
    lines = [line.split("  # ")[0].rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _place(finding: dict[str, Any]) -> str:
    return ".".join(map(str, finding["loc"]))

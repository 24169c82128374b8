"""The README's first call and the quickstart, run as they stand against a running stack."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.ports import choose_free
from tests.e2e.running_stack import RECEIVERS, RunningStack

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "get-started" / "quickstart.md")
# A failing call ends the script, as a reader would see at once.
PREAMBLE = 'set -euo pipefail\ncurl() { command curl -sS --fail-with-body "$@"; echo; }\n'

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("bash")), reason="curl or bash is not installed"
)


def documented_commands() -> str:
    """The shell commands of both pages, in their order."""
    pages = "\n".join(page.read_text() for page in PAGES)
    return "\n".join(re.findall(r"^```bash\n(.*?)^```", pages, re.MULTILINE | re.DOTALL))


def replaced(script: str, old: str, new: str) -> str:
    assert old in script, f"the pages no longer say {old}"
    return script.replace(old, new)


def test_the_quickstart_with_curl(stack: RunningStack) -> None:
    script = replaced(documented_commands(), "http://127.0.0.1:8080", stack.base_url)
    script = replaced(script, ".aes/development-key", str(stack.home / "development-key"))
    script = replaced(script, ".aes/kafka-password", str(stack.home / "kafka-password"))
    script = replaced(script, ".aes/venv/bin/python", sys.executable)
    # The one address that this stack's webhooks may lead to.
    port = str(choose_free())
    script = replaced(script, "http://127.0.0.1:9555/", f"http://{RECEIVERS}:{port}/")
    script = replaced(script, "--port 9555", f"--host {RECEIVERS} --port {port}")

    done = subprocess.run(
        ["bash", "-c", PREAMBLE + script],
        cwd=ROOT,
        env={**stack.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for promised in (
        '"company_name":"Development"',
        '"valid":false',
        "did you mean 'react_agent'?",
        '"status":"active"',
        "= 826",
        '"name":"best.md"',
        '"citations":[{',
        '"status":"waiting"',
        "3 * 245 = 735",
        '\\"free\\":118',
        "event: turn.started",
        "event: turn.completed",
        '"has_more":false',
    ):
        assert promised in done.stdout, done.stdout
    assert re.search(r"^\S+Z \d+ turn\.completed \{", done.stdout, re.MULTILINE), "no webhook came\n" + done.stdout
    recorded = [line for line in done.stdout.splitlines() if re.match(r"\d{4}-\d\d-\d\dT\S+  runtime ", line)]
    assert sum("turn.completed" in line for line in recorded) == 3, done.stdout
    assert sum("turn.tool_call.completed" in line for line in recorded) == 3, done.stdout


@pytest.mark.slow(covered_by="test_the_quickstart_with_curl")
def test_the_demo_runs_to_its_end(stack: RunningStack) -> None:
    result = stack.aes("demo")

    assert [report["valid"] for report in result["validation"]] == [False, True, True]
    conversation, tools, files, waits = result["sessions"]
    assert "1961" in conversation["turns"][0]["content"]
    used = [call["name"] for turn in tools["turns"] for call in turn["tool_calls"]]
    assert used == ["calculator", "current_time", "knowledge_search"]
    base = result["knowledge_base"]
    assert (base["status"], base["datasource_count"]) == ("completed", 3)
    for turn in (*conversation["turns"], tools["turns"][2]):
        assert {citation["knowledge_base_id"] for citation in turn["citations"]} == {base["id"]}
        assert "turn.citation.added" in turn["events"]
    assert "37" in tools["turns"][2]["content"]
    assert "158" in files["turns"][0]["content"]
    assert [call["name"] for call in files["turns"][2]["tool_calls"]] == ["table_query", "artifact_create"]
    [waited] = waits["turns"]
    assert [(call["name"], call["status"]) for call in waited["tool_calls"]] == [
        ("calculator", "completed"),
        ("free_seats", "completed"),
    ]
    assert "735" in waited["content"]
    assert "118" in waited["content"]
    assert waited["events"].count("turn.action_resolved") == 2
    assert [Path(path).name for path in result["saved"]] == ["income-2025.xlsx"]
    assert [page["total"] for page in result["history"]] == [6, 6, 6, 2]
    ends = {event["subject"] for event in result["timeline"] if event["type"] == "turn.completed"}
    assert ends == {turn["turn_id"] for session in result["sessions"] for turn in session["turns"]}

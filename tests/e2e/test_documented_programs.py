"""Programs that the guides show, run as they stand against a running stack, with its address and keys in place."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import psycopg
import pytest

from deploy.local.ports import choose_free
from tests.e2e.api import Api, configuration, unique
from tests.e2e.running_stack import RECEIVERS, ROOT, RunningStack
from tests.support.node_packages import node_module
from tests.support.tcp_proxy import TcpProxy

DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples" / "toolsets"
LIMIT_SECONDS = 300
# What a browser sends by itself.
ORIGIN = """
const send = fetch;
globalThis.fetch = (url, init) => send(url, { ...init, headers: { ...init.headers, origin: "http://localhost:8000" } });
"""


def blocks(page: Path, language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))


def replaced(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        assert old in text, f"the page no longer says {old}"
        text = text.replace(old, new)
    return text


def environment(stack: RunningStack) -> dict[str, str]:
    given = {"AES_BASE_URL": stack.base_url, "AES_API_KEY": stack.api_key, "PYTHONPATH": str(ROOT / "clients/python")}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("AES_")}, **given}


def output_of(command: list[str], stack: RunningStack, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(stack), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
@pytest.mark.slow(covered_by="e2e/test_python_client.py::test_the_tutorial_runs_as_it_stands")
def test_the_chat_product(stack: RunningStack, tmp_path: Path) -> None:
    page = DOCS / "tutorials" / "chat-product.md"
    port = choose_free()
    own_address = {'HOST, PORT, SHOP_KEY = "127.0.0.1", 9555': f'HOST, PORT, SHOP_KEY = "{RECEIVERS}", {port}'}
    program = replaced(blocks(page, "python"), own_address)
    (tmp_path / "chat.py").write_text(program)
    # A run that stopped halfway isn't in the way of the next.
    output_of([sys.executable, "-c", program.partition("def next_event")[0]], stack, tmp_path)
    # The stack runs already, and calls that address alone.
    start = replaced(
        blocks(page, "bash"),
        {
            "./aes down; AES_OUTBOUND_NETWORKS=127.0.0.0/8 ./aes up": "./aes status",
            "http://127.0.0.1:8080": stack.base_url,
            ".aes/development-key": str(stack.home / "development-key"),
            ".aes/venv/bin/python chat.py": f"{sys.executable} -u {tmp_path / 'chat.py'}",
        },
    )
    with subprocess.Popen(
        ["bash", "-euc", start],
        cwd=ROOT,
        env=stack.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as program:
        assert program.stdout is not None
        said = []
        for line in program.stdout:
            said.append(line)
            if line.startswith("pub_"):
                break
        assert said[-1].startswith("pub_"), "".join(said)
        shown = replaced(blocks(page, "js"), {"pub_…": said[-1].strip(), "http://127.0.0.1:8080": stack.base_url})
        (tmp_path / "chat.mjs").write_text(ORIGIN + shown)
        assert "3 * 12 = 36" in output_of(["node", "chat.mjs"], stack, tmp_path)
        rest, _ = program.communicate("\n", timeout=LIMIT_SECONDS)

    assert program.returncode == 0, rest
    for promised in (
        "3 * 12 = 36",
        "turn.action_required\n",
        "shop.refund_order {'order': 17}",
        'returned: {"refunded": 17}',
        "turn.completed {'",
    ):
        assert promised in "".join(said)
    with httpx.Client(base_url=f"{stack.base_url}/api/v1", headers={"x-api-key": stack.api_key}) as left:
        assert left.get("/secrets/shop/").status_code == 404
        assert f"{RECEIVERS}:{port}" not in left.get("/webhooks/").text


PROTOCOLS: dict[str, dict[str, str]] = {
    "a2a": {"http://localhost:8080/a2a/my-agent-x1": "{base_url}/a2a/{agent_key}"},
    "mcp": {},
    "openai": {"http://localhost:8080": "{base_url}", "aes_…": "{api_key}", "builtin:extractive": "{agent_key}"},
}


@pytest.mark.slow(covered_by="e2e/test_openai_chat.py::test_a_completion_is_a_turn_of_a_session_that_nobody_lists")
@pytest.mark.parametrize("guide", PROTOCOLS)
async def test_a_client_of_a_protocol(guide: str, stack: RunningStack, api: Api, tmp_path: Path) -> None:
    agent = await api.create("/agent/", configuration(name=unique(guide)))
    own = {"base_url": stack.base_url, "api_key": stack.api_key, "agent_key": agent["agent_key"]}
    replacements = {old: new.format(**own) for old, new in PROTOCOLS[guide].items()}
    program = replaced(blocks(DOCS / "how-to" / f"{guide}.md", "python"), replacements)
    said = await asyncio.to_thread(output_of, [sys.executable, "-c", program], stack, tmp_path)
    assert "The stub answers" in said


@pytest.mark.slow(covered_by="e2e/test_ag_ui.py::test_a_thread_is_a_session_and_only_new_messages_are_new")
async def test_a_client_of_ag_ui(stack: RunningStack, api: Api, tmp_path: Path) -> None:
    node, module = await asyncio.to_thread(node_module, "@ag-ui/client", "dist/index.mjs")
    agent = await api.create("/agent/", configuration(name=unique("ag-ui")))
    own = {
        '"@ag-ui/client"': json.dumps(module),
        "http://localhost:8080/ag-ui/my-agent-x1": f"{stack.base_url}/ag-ui/{agent['agent_key']}",
    }
    (tmp_path / "run.mjs").write_text(replaced(blocks(DOCS / "how-to" / "ag-ui.md", "js"), own))
    said = await asyncio.to_thread(output_of, [node, "run.mjs"], stack, tmp_path)
    assert "The stub answers" in said


@pytest.mark.slow(covered_by="e2e/test_python_client.py::test_the_tutorial_runs_as_it_stands")
@pytest.mark.parametrize("origin", ["langgraph", "letta", "openai-assistants"])
def test_moving_an_export(origin: str, stack: RunningStack, tmp_path: Path) -> None:
    # The scripts note beside the export what they moved.
    shutil.copytree(ROOT / "examples" / "migrations", tmp_path / "examples" / "migrations")
    command = blocks(DOCS / "how-to" / "migrating" / f"from-{origin}.md", "bash")
    own = replaced(command, {"python examples": f"{sys.executable} examples"})
    assert "Moved" in output_of(["bash", "-euc", own], stack, tmp_path)


@pytest.mark.slow(covered_by="integration/runtime/toolsets/test_examples.py::test_the_http_toolset")
async def test_the_toolset_of_the_ticket_office(stack: RunningStack, api: Api, tmp_path: Path) -> None:
    """The office listens on an address that this stack doesn't call; a proxy listens on the one that it does."""
    office, port = choose_free(), choose_free()
    toolset = (EXAMPLES / "http-toolset.yaml").read_text()
    (tmp_path / "http-toolset.yaml").write_text(replaced(toolset, {"127.0.0.1:8201": f"{RECEIVERS}:{port}"}))
    commands = replaced(
        blocks(DOCS / "how-to" / "tools.md", "bash"),
        {
            ".aes/venv/bin/python examples": f"{sys.executable} {ROOT}/examples",
            "ticket_office.py &": f"ticket_office.py {office} &",
            "http://127.0.0.1:8201/ ": f"http://127.0.0.1:{office}/ ",
            "./aes actions": f"{ROOT}/aes actions",
            "examples/toolsets/http-toolset.yaml": str(tmp_path / "http-toolset.yaml"),
        },
    )
    [field] = re.findall(r"^field\(\).*$", (DOCS / "get-started" / "quickstart.md").read_text(), re.MULTILINE)
    own = f'AES={stack.base_url}/api/v1; KEY="x-api-key: {stack.api_key}"; export AES_PYTHON={sys.executable}'
    script = f"{own}\n{field}\ntrap 'kill $!' EXIT\n{commands}"
    async with TcpProxy(host=RECEIVERS, port=port, target_port=office):
        said = await asyncio.to_thread(output_of, ["bash", "-euc", script], stack, tmp_path)
    for promised in ("morning", '"status":"waiting"', "T0001"):
        assert promised in said
    for place in ("/toolsets/tickets/", "/secrets/ticket-office/"):
        assert (await api.http.delete(place)).status_code == 204


def statements() -> list[str]:
    text = "".join(page.read_text() for page in sorted((DOCS / "operate").glob("*.md")))
    found = re.findall(r"^    ((?:SELECT|UPDATE) .*)$", text, re.MULTILINE)
    return [line.split("  #")[0].replace("'<one hour before that moment>'", "now()") for line in found]


@pytest.mark.slow(covered_by="contract/test_generated_pages.py::test_generating_the_pages_again_changes_nothing")
@pytest.mark.parametrize("statement", statements())
def test_a_statement_fits_the_tables_of_a_service(statement: str, stack: RunningStack) -> None:
    problems = []
    for service in ("gateway", "timeline", "registry", "runtime", "ingestion", "artifacts"):
        with psycopg.connect(stack.database(service), autocommit=True) as connection:
            try:
                connection.execute(f"PREPARE documented AS {statement}".encode())
            except psycopg.errors.UndefinedTable as problem:
                problems.append(problem)
            else:
                return
    raise AssertionError(problems)

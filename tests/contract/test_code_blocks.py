"""Every code block of the guides runs in a test, or is of a kind that can't; its syntax is checked either way.

Blocks of a kind that doesn't run are counted, and each count may only fall. Generated parts of pages are compared with
their sources instead (test_generated_pages.py).
"""

import functools
import json
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main
import yaml
from markdown_it import MarkdownIt

from cli.app import app
from tests.contract.test_documented_addresses import API, operations
from tools.reference.markdown import by_hand

ROOT = Path(__file__).parents[2]
README = "tests/e2e/test_readme.py::test_the_quickstart_with_curl"
PROGRAMS = "tests/e2e/test_documented_programs.py::"
GUIDES = "tests/contract/test_contributing_guides.py::copy"
SAMPLE = "tests/contract/test_documentation.py::test_the_guide_quotes_the_sample_owner_as_it_is"
# Of readers: some commands look whether they exist.
FOLDERS = ("FOLDER", "/backup", "/tmp/backup")
# By page and language, or what a block begins with: the test that runs the page's blocks of that kind.
RUN_BY: Final = {
    ("README.md", "bash"): README,
    ("clients/python/README.md", "python"): "tests/e2e/test_python_client.py::test_the_tutorial_runs_as_it_stands",
    **dict.fromkeys((("docs/contributing/add-a-resource.md", kind) for kind in ("python", "diff", "bash")), GUIDES),
    **dict.fromkeys((("docs/contributing/add-a-field.md", kind) for kind in ("diff", "bash")), GUIDES),
    **dict.fromkeys((("docs/contributing/add-an-event.md", kind) for kind in ("diff", "bash")), GUIDES),
    ("docs/contributing/add-a-service.md", "python"): SAMPLE,
    ("docs/get-started/quickstart.md", "bash"): README,
    ("docs/how-to/a2a.md", "python"): f"{PROGRAMS}test_a_client_of_a_protocol",
    ("docs/how-to/ag-ui.md", "js"): f"{PROGRAMS}test_a_client_of_ag_ui",
    ("docs/how-to/mcp.md", "python"): f"{PROGRAMS}test_a_client_of_a_protocol",
    ("docs/how-to/migrating/from-langgraph.md", "bash"): f"{PROGRAMS}test_moving_an_export",
    ("docs/how-to/migrating/from-letta.md", "bash"): f"{PROGRAMS}test_moving_an_export",
    ("docs/how-to/migrating/from-openai-assistants.md", "bash"): f"{PROGRAMS}test_moving_an_export",
    ("docs/how-to/openai.md", "python"): f"{PROGRAMS}test_a_client_of_a_protocol",
    ("docs/how-to/tools.md", "bash"): f"{PROGRAMS}test_the_toolset_of_the_ticket_office",
    ("docs/operate/kubernetes.md", "resources:"): "tests/contract/kubernetes/test_rendering.py::own",
    ("docs/tutorials/chat-product.md", "bash"): f"{PROGRAMS}test_the_chat_product",
    ("docs/tutorials/chat-product.md", "js"): f"{PROGRAMS}test_the_chat_product",
    ("docs/tutorials/chat-product.md", "python"): f"{PROGRAMS}test_the_chat_product",
}


@dataclass(frozen=True)
class Kind:
    """``most`` is the number of such blocks, None where this module checks them; ``reason`` says why none runs."""

    most: int | None
    reason: str
    pattern: str


KINDS: Final = {
    "diagram": Kind(None, "A picture.", r"mermaid\n|\n(.*\n){0,3}.*[│┌]|\nservices/<name>/|\nlibs/ "),
    "data": Kind(None, "A body or a configuration: parsed.", r"(json|yaml)\n"),
    "request": Kind(None, "A request line: compared with the routes.", r"\n(GET|POST|PUT|PATCH|DELETE) /"),
    "aes": Kind(None, "Reads or changes an installation: parsed as aes does.", r"(bash)?\n(printf .*\n)?\./aes "),
    "wire": Kind(6, "A part of a request or a reply, with … for the rest.", r'\n(x-api-key:|id: |event: |\{")'),
    "docker": Kind(10, "Needs Docker.", r"\n(cp \.env|docker|mkdir backup|AES_GATEWAY_PORTS)"),
    "kubernetes": Kind(9, "Needs a cluster, as tests/cluster has.", r"\n(kubectl |for name in gateway)"),
    "query": Kind(
        20,
        "For an installation with data: test_metrics.py compares metrics, test_documented_programs.py SQL.",
        r"\n(SELECT|UPDATE|CREATE ROLE|ALTER ROLE|sum|max|changes|histogram_quantile|aes_|log[: ])",
    ),
    "configuration": Kind(
        8, "For programs of others, or a page of yours.", r"(html|js)\n|\n(map \$|pool_mode|labels:|AES_KAFKA_|sed )"
    ),
    "account": Kind(
        3, "Needs a service of others.", r"python\nimport (asyncio|json|os)\n(.*\n)*.*(_client|_sdk|openai)"
    ),
    "command": Kind(7, "Needs files or packages of the reader.", r"\n(curl|pip|printf|grep|KAFKA_PASSWORD|\.aes/venv)"),
}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.place in RUN_BY

    @property
    def place(self) -> tuple[str, str]:
        return self.page, self.language or self.text.split(maxsplit=1)[0]

    @property
    def kind(self) -> str | None:
        """The first kind whose pattern the block begins with, after its language in a line of its own."""
        return next(
            (name for name, kind in KINDS.items() if re.match(kind.pattern, f"{self.language}\n{self.text}")), None
        )

    @property
    def commands(self) -> Iterator[str]:
        """Lines of a shell, without the explanation that stands two blanks after a command."""
        for line in re.sub(r"\\\n\s*", "", self.text).splitlines():
            yield re.split(r"(?<=\S)\s{2,}", line)[0]


@functools.cache
def blocks() -> tuple[Block, ...]:
    pages = [ROOT / "README.md", ROOT / "clients" / "python" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return tuple(
        Block(page.relative_to(ROOT).as_posix(), token.map[0] + 1, token.info.partition(" ")[0], token.content)
        for page in pages
        for token in MarkdownIt().parse(by_hand(page.read_text()))
        if token.type in ("fence", "code_block") and token.map
    )


def written_in(*languages: str) -> list[Block]:
    return [block for block in blocks() if block.language in languages]


def test_every_block_runs_or_is_of_a_kind_that_cannot() -> None:
    left = [block for block in blocks() if not block.runs]
    assert [str(block) for block in left if block.kind is None] == [], "run it in a test, see RUN_BY"
    counted = Counter(block.kind for block in left)
    most = {name: kind.most for name, kind in KINDS.items() if kind.most is not None}
    assert {name: counted[name] for name in most} == most, "counts may only fall: run the block, or lower `most`"


@pytest.mark.parametrize(
    ("place", "test"), RUN_BY.items(), ids=lambda each: "-".join(each) if isinstance(each, tuple) else ""
)
def test_blocks_that_run_exist_and_so_does_their_test(place: tuple[str, str], test: str) -> None:
    page, language = place
    assert any(block.place == place for block in blocks())
    file, _, function = test.partition("::")
    source = (ROOT / file).read_text()
    assert f"def {function}(" in source
    name = Path(page).stem.removeprefix("from-")
    assert name in source, f"{file} doesn't read {page}"
    assert re.search(rf"\W{re.escape(language)}", source), f"{file} doesn't read blocks of {language}"


def test_data_is_well_formed() -> None:
    for block in written_in("json", "yaml"):
        read: Any = json.loads if block.language == "json" else yaml.safe_load
        assert read(block.text), block


def test_a_request_has_a_route() -> None:
    for block in (each for each in blocks() if each.kind == "request"):
        for method, path in re.findall(r"^([A-Z]+) (/[^\s?]*)", block.text, re.MULTILINE):
            routes = [route for verb, route in operations() if verb == method]
            of_a_reader = block.page == "docs/reference/webhooks.md" and path == "/hooks/agents"
            known = any(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), f"{API}{path}") for route in routes)
            assert of_a_reader or known, f"{block}: {path}"


def test_python_is_well_formed() -> None:
    for block in written_in("python"):
        compile(block.text.replace("…", "..."), str(block), "exec")


def test_shell_is_well_formed() -> None:
    for block in blocks():
        if block.language == "bash" or block.kind in ("aes", "docker", "command"):
            script = block.text if block.language == "bash" else "\n".join(block.commands)
            done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, f"{block}: {done.stderr}"


def aes_commands() -> Iterator[tuple[Block, list[str]]]:
    for block in blocks():
        for line in block.commands:
            for command in re.findall(r"(?:\./aes|run --rm (?:\S+ )*?cli|python -m cli) ([^;&|>#()]+)", line):
                # In the quickstart one ends a text that is quoted.
                unquoted = command.removesuffix('"') if command.count('"') % 2 else command
                yield block, shlex.split(re.sub(r"\[[^\]]*\]", "", unquoted))


def parse(arguments: Sequence[str]) -> None:
    """Parses a command as `aes` does. Raises what ends it: a usage error, or Exit for --version."""
    rest = list(arguments)
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name="aes")
    while rest and hasattr(command, "get_command"):
        name = rest.pop(0)
        if name.startswith("-"):
            rest.insert(0, name)
            break
        command = command.get_command(context, name)
        assert command is not None, f"there is no command {name}"
        context = command.context_class(command, parent=context, info_name=name)
    command.make_context(context.info_name, rest, parent=context.parent)


def test_a_command_has_the_options_that_are_shown(tmp_path: Path) -> None:
    for block, arguments in aes_commands():
        try:
            parse([str(tmp_path) if each in FOLDERS else each for each in arguments])
        except typer.Exit:
            assert arguments == ["--version"], block
        except Exception as error:
            raise AssertionError(f"{block}: {' '.join(arguments)}") from error

"""Additions take few files: each guide is followed in a copy of the project, where its test and checks run."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
CHECKS = ("asyncapi", "examples", "generated_pages", "house_rules", "public_api", "python_client")


@dataclass(frozen=True)
class Guide:
    """``most_lines``: by hand. ``affected``: unit tests that the addition could break."""

    name: str
    most_files: int
    most_lines: int
    affected: tuple[str, ...] = ()
    lists_its_files: bool = True

    @property
    def text(self) -> str:
        return (ROOT / "docs" / "contributing" / f"{self.name}.md").read_text()

    @property
    def blocks(self) -> list[tuple[str, str, str]]:
        """Kind, file and text of each block with code."""
        return [
            (kind, path, token.content)
            for token in MarkdownIt().parse(self.text)
            if token.type == "fence" and token.info != "bash"
            for kind, path in [token.info.split()]
        ]

    @property
    def generators(self) -> list[str]:
        return re.findall(r"^python (.+)$", self.text, re.MULTILINE)


GUIDES: Final = (
    Guide(
        "add-a-resource",
        most_files=14,
        most_lines=450,
        affected=("gateway/test_every_operation.py", "gateway/test_routes.py"),
        lists_its_files=False,
    ),
    Guide(
        "add-a-field",
        most_files=6,
        most_lines=5,
        affected=("gateway/test_execute.py", "runtime/test_options.py", "runtime/models"),
    ),
    Guide("add-an-event", most_files=5, most_lines=20),
)


def run(folder: Path, *command: str, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", params=GUIDES, ids=lambda guide: guide.name)
def guide(request: pytest.FixtureRequest) -> Guide:
    followed: Guide = request.param
    return followed


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's files in a repository of one commit. Guides share it, and with it the compiled modules."""
    folder = tmp_path_factory.mktemp("guides") / "project"
    for name in run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    run(folder, "git", "init", "-q")
    run(folder, "git", "add", "-A")
    run(folder, "git", "-c", "user.name=guide", "-c", "user.email=guide@example.com", "commit", "-qm", "before")
    return folder


@pytest.fixture(scope="module")
def written(guide: Guide, project: Path) -> Path:
    """The project with the guide's files and changes, not committed."""
    run(project, "git", "reset", "-q", "--hard")
    run(project, "git", "clean", "-qfd")
    for kind, path, text in guide.blocks:
        if kind == "diff":
            run(project, "git", "apply", "-", given=text)
        else:
            (project / path).write_text(text)
    return project


@pytest.fixture(scope="module")
def copy(guide: Guide, written: Path) -> Path:
    """The project as the guide leaves it, with what is generated."""
    for generator in guide.generators:
        run(written, sys.executable, *generator.split())
    return written


def touched(project: Path) -> list[str]:
    return [line[3:] for line in run(project, "git", "status", "--porcelain", "-uall").splitlines()]


def test_its_changes_apply_and_are_few_lines(guide: Guide, written: Path) -> None:
    added = [
        line
        for kind, _, text in guide.blocks
        for line in text.splitlines()
        if kind == "python" or re.match(r"\+(?!\+\+)", line)
    ]
    assert {path for _, path, _ in guide.blocks} == {*touched(written)}
    assert len(added) <= guide.most_lines


@pytest.mark.slow(covered_by="test_its_changes_apply_and_are_few_lines")
def test_it_takes_few_files(guide: Guide, copy: Path) -> None:
    files = touched(copy)
    assert len(files) <= guide.most_files
    if guide.lists_its_files:
        assert sorted(re.findall(r"^\| `(\w[\w./-]+/[\w.-]+)` \|", guide.text, re.MULTILINE)) == sorted(files)


@pytest.mark.slow(covered_by="test_its_changes_apply_and_are_few_lines")
def test_it_keeps_the_rules_and_works(guide: Guide, copy: Path) -> None:
    files = [path for path in touched(copy) if path.endswith(".py")]
    typed = [path for path in files if not path.startswith("tests/")]
    own = [path for path in files if path.startswith("tests/")]
    run(copy, sys.executable, "-m", "ruff", "check", *files)
    run(copy, sys.executable, "-m", "ruff", "format", "--check", *files)
    run(copy, sys.executable, "-m", "mypy", *typed)
    affected = [f"tests/unit/{name}" for name in guide.affected]
    checks = [f"tests/contract/test_{name}.py" for name in CHECKS]
    run(copy, sys.executable, "-m", "pytest", "-q", "-n0", *own, *affected, *checks)

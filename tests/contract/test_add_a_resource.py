"""A new resource takes few files: the guide is followed in a copy of the project, where its test and checks run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "contributing" / "add-a-resource.md"
MOST_FILES: Final = 17
MOST_LINES: Final = 450
"""Lines by hand."""
BLOCKS = [
    (kind, path, token.content)
    for token in MarkdownIt().parse(GUIDE.read_text())
    if token.type == "fence" and token.info != "bash"
    for kind, path in [token.info.split()]
]
GENERATORS = re.findall(r"^python (.+)$", GUIDE.read_text(), re.MULTILINE)
CHECKS = ("asyncapi", "examples", "generated_pages", "house_rules", "public_api", "python_client")


def run(folder: Path, *command: str, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as the guide leaves it, with what it was before as a commit."""
    folder = tmp_path_factory.mktemp("guide") / "project"
    for name in run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    run(folder, "git", "init", "-q")
    run(folder, "git", "add", "-A")
    run(folder, "git", "-c", "user.name=guide", "-c", "user.email=guide@example.com", "commit", "-qm", "before")
    for kind, path, text in BLOCKS:
        if kind == "diff":
            run(folder, "git", "apply", "-", given=text)
        else:
            (folder / path).write_text(text)
    for generator in GENERATORS:
        run(folder, sys.executable, *generator.split())
    return folder


def touched(copy: Path) -> list[str]:
    return [line[3:] for line in run(copy, "git", "status", "--porcelain", "-uall").splitlines()]


def test_it_takes_few_files_and_lines(copy: Path) -> None:
    added = [
        line
        for kind, _, text in BLOCKS
        for line in text.splitlines()
        if kind == "python" or re.match(r"\+(?!\+\+)", line)
    ]
    assert {path for _, path, _ in BLOCKS} <= {*touched(copy)}
    assert len(touched(copy)) <= MOST_FILES
    assert len(added) <= MOST_LINES


@pytest.mark.slow
def test_it_keeps_the_rules_and_works(copy: Path) -> None:
    files = [path for path in touched(copy) if path.endswith(".py")]
    typed = [path for path in files if not path.startswith("tests/")]
    own = [path for path in files if path.startswith("tests/")]
    run(copy, sys.executable, "-m", "ruff", "check", *files)
    run(copy, sys.executable, "-m", "ruff", "format", "--check", *files)
    run(copy, sys.executable, "-m", "mypy", *typed)
    checks = [f"tests/contract/test_{name}.py" for name in CHECKS]
    run(copy, sys.executable, "-m", "pytest", "-q", "-n0", *own, *checks)

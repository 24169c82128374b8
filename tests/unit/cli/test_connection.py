"""Connections of the command line: the address and key that it uses, and what it says without any."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.app import COMMANDS
from cli.connection import connect
from deploy.local.errors import StackError
from libs.service_defaults import RELEASE


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    monkeypatch.delenv("AES_API_KEY", raising=False)
    (tmp_path / "development-key").write_text("aes_of_this_machine\n")
    return tmp_path


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080", "http://localhost:8080/", "http://[::1]:8080"])
def test_the_development_key_is_for_this_machine(address: str) -> None:
    assert connect(address, None).api_key == "aes_of_this_machine"


@pytest.mark.parametrize("address", ["https://agents.example.com", "http://localhost.example.com", "http://10.0.0.1"])
def test_it_is_sent_nowhere_else(address: str) -> None:
    with pytest.raises(StackError, match="No API key given for") as refused:
        connect(address, None)
    assert "--api-key" in refused.value.remedy
    assert connect(address, "aes_given").api_key == "aes_given"


@pytest.mark.parametrize("address", ["agents.example.com", "", "ftp://agents.example.com", "http://[half"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(StackError, match="Invalid service URL"):
        connect(address, "aes_given")


def test_help_waits_for_no_client() -> None:
    """Each of httpx, pydantic and the client takes longer to import than all that help needs."""
    listed = "import sys, cli.app; from importlib import import_module; "
    commands = ["actions", "events", "usage", "budgets", "kb", "up", "status"]
    imported = "".join(f"import_module('cli.{name}'); " for name in commands)
    told = "print(*{'aes_client', 'httpx', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", listed + imported + told], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


ROOT = Path(__file__).parents[3]
DEVELOPMENT = ("bench", "check", "test")


def copied(target: str) -> Iterator[tuple[Path, Path]]:
    """The project's files and folders that a target of the Dockerfile has, with their places below its directory."""
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    [stage] = [stage for stage in stages if re.match(rf"\S+ AS {target}$", stage, re.MULTILINE)]
    if (base := stage.split()[0]) != "${PYTHON_IMAGE}":
        yield from copied(base)
    [code] = [stage for stage in stages if re.match(r"\S+ AS code$", stage, re.MULTILINE)]
    of_code = {there: here for here, there in re.findall(r"^COPY (\S+) (/app/\S+)$", code, re.MULTILINE)}
    for source, place in re.findall(r"^COPY --from=code (\S+) /app/(\S+)$", stage, re.MULTILINE):
        known = next(there for there in of_code if f"{source}/".startswith(f"{there}/"))
        name = Path(source).name if place.endswith("/") else ""
        yield ROOT / (of_code[known] + source.removeprefix(known)), Path(place, name)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("image")
    for source, place in copied("cli"):
        if source.is_dir():
            shutil.copytree(source, directory / place, ignore=shutil.ignore_patterns("__pycache__", "README.md"))
        else:
            (directory / place.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(source, directory / place)
    assert (directory / "cli").is_dir(), "the Dockerfile is read as it is written"
    return directory


def aes(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "cli", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)


def test_the_version_is_that_of_the_release(image: Path) -> None:
    printed = aes(image, "--version")
    assert (printed.returncode, printed.stdout) == (0, f"aes {RELEASE}\n"), printed.stderr


@pytest.mark.parametrize("offered", [True, False])
def test_commands_for_development_are_offered_in_a_clone_alone(image: Path, offered: bool) -> None:
    listed = aes(ROOT if offered else image, "--help").stdout
    names = [name for name in COMMANDS if re.search(rf"^[│\s]*{name} ", listed, re.MULTILINE)]
    assert names == [name for name in COMMANDS if offered or name not in DEVELOPMENT]


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_a_command_for_development_says_that_it_needs_a_clone(image: Path, name: str) -> None:
    refused = aes(image, name, "--help")
    assert refused.returncode == 2
    assert "Clone the repository" in " ".join(refused.stderr.replace("│", " ").split())

"""The launcher at the project's root, which runs before any package is installed."""

import ast
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from deploy.local.home import PROJECT_ROOT

LAUNCHER = PROJECT_ROOT / "aes"


@pytest.fixture
def launcher() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("aes_launcher", str(LAUNCHER))
    spec = importlib.util.spec_from_loader("aes_launcher", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def launch(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(LAUNCHER), *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def test_it_is_executable_and_imports_only_the_standard_library() -> None:
    imported = set()
    for node in ast.walk(ast.parse(LAUNCHER.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert imported <= sys.stdlib_module_names
    assert os.access(LAUNCHER, os.X_OK)


def test_a_python_of_the_versions_it_refuses_can_read_it() -> None:
    ast.parse(LAUNCHER.read_text(), feature_version=(3, 7))


def test_the_named_interpreter_runs_the_command_line_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(LAUNCHER), "--help"]
    environment = {**os.environ, "AES_PYTHON": sys.executable}
    shown = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "status" in shown.stdout


def test_compiled_modules_are_kept_for_callers_who_want_none_in_their_tree(tmp_path: Path) -> None:
    unwanted = {"AES_HOME": str(tmp_path), "AES_PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
    assert launch("--version", **unwanted).returncode == 0
    assert list((tmp_path / "cache" / "bytecode").rglob("cli/app.*.pyc"))


def test_the_lock_entry_of_a_package_has_its_hashes_and_nothing_else(launcher: ModuleType) -> None:
    entry = launcher.locked("uv").splitlines()
    assert entry[0].startswith("uv==")
    assert all("--hash=sha256:" in line for line in entry[1:])
    assert len(entry) > 1


@pytest.fixture
def locks(launcher: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The users' and the developers' lock, each with a package."""
    locks = [tmp_path / "requirements.lock", tmp_path / "requirements-dev.lock"]
    for name, lock in zip(("LOCK", "DEVELOPERS_LOCK"), locks, strict=True):
        lock.write_text("a==1\n")
        monkeypatch.setattr(launcher, name, lock)
    monkeypatch.setenv("AES_HOME", str(tmp_path / "home"))
    return locks


@pytest.fixture
def installs(launcher: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the locks that are installed, and "venv" for each environment that is made."""
    installed: list[list[str]] = []

    def create_venv(venv: Path) -> None:
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").touch()
        installed.append(["venv"])

    def install(_venv: Path, locks: list[Path], _turn: object) -> None:
        installed.append([lock.name for lock in locks])

    monkeypatch.setattr(launcher, "create_venv", create_venv)
    monkeypatch.setattr(launcher, "works", lambda _: True)
    monkeypatch.setattr(launcher, "install", install)
    return installed


USERS, BOTH = ["requirements.lock"], ["requirements.lock", "requirements-dev.lock"]


def ensure(launcher: ModuleType, *arguments: str) -> None:
    launcher.ensure_environment(launcher.locks_of(arguments))


def test_packages_for_developers_come_with_the_first_command_that_needs_them(
    launcher: ModuleType, locks: list[Path], installs: list[list[str]]
) -> None:
    ensure(launcher, "up")
    ensure(launcher, "--version")
    assert installs == [["venv"], USERS]
    ensure(launcher, "test", "-k", "up")
    ensure(launcher, "bench", "turns")
    ensure(launcher, "check")
    assert installs == [["venv"], USERS, BOTH]

    # A lock for developers only is no reason for a user's command to wait, and neither takes the other's packages away.
    locks[1].write_text("a==2\n")
    ensure(launcher, "up")
    assert installs == [["venv"], USERS, BOTH]
    locks[0].write_text("a==2\n")
    ensure(launcher, "up")
    ensure(launcher, "test")
    assert installs == [["venv"], USERS, BOTH, BOTH]


def test_an_installation_that_failed_leaves_what_was_there_and_one_that_was_killed_is_made_anew(
    launcher: ModuleType, locks: list[Path], installs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(launcher, "up")
    installs.clear()
    install = launcher.install
    for error in (launcher.LaunchError, KeyboardInterrupt):

        def end(*_: object, error: type[BaseException] = error) -> None:
            raise error

        monkeypatch.setattr(launcher, "install", end)
        with pytest.raises(error):
            ensure(launcher, "test")
        # Packages were to be added alone.
        ensure(launcher, "up")
        monkeypatch.setattr(launcher, "install", install)
        ensure(launcher, "test")
        assert installs == ([BOTH] if error is launcher.LaunchError else [["venv"], BOTH])
        installs.clear()
        locks[1].write_text("a==2\n")


def test_a_full_disk_is_explained(tmp_path: Path, launcher: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "NEEDED_BYTES", 2**60)
    with pytest.raises(launcher.LaunchError, match="not enough disk space"):
        launcher.check_disk(tmp_path)


def test_a_missing_venv_module_is_explained(tmp_path: Path) -> None:
    (tmp_path / "venv.py").write_text("raise SystemExit('ensurepip is not available')")
    home = tmp_path / "home"
    failed = launch("status", AES_PYTHON="", AES_HOME=str(home), PYTHONPATH=str(tmp_path))
    assert failed.returncode == 1
    assert "ensurepip is not available" in failed.stderr
    assert "apt install python3" in failed.stderr
    assert not (home / "venv").exists()

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


def test_the_lock_entry_of_a_package_has_its_hashes_and_nothing_else(launcher: ModuleType) -> None:
    entry = launcher.locked("uv").splitlines()
    assert entry[0].startswith("uv==")
    assert all("--hash=sha256:" in line for line in entry[1:])
    assert len(entry) > 1


def test_an_environment_is_current_until_the_lock_changes(
    launcher: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("a==1\n")
    monkeypatch.setattr(launcher, "LOCK", lock)
    wanted = launcher.fingerprint()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert not launcher.is_current(tmp_path, wanted)
    (tmp_path / "installed").write_text(wanted)
    assert launcher.is_current(tmp_path, wanted)
    lock.write_text("a==2\n")
    assert not launcher.is_current(tmp_path, launcher.fingerprint())


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

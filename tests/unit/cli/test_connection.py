import subprocess
import sys
from pathlib import Path

import pytest

from cli.connection import connect
from deploy.local.errors import StackError


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
    with pytest.raises(StackError):
        connect(address, "aes_given")


def test_help_waits_for_no_client() -> None:
    """Each of httpx, pydantic and the client takes longer to import than all that help needs."""
    listed = "import sys, cli.app; from importlib import import_module; "
    commands = ["actions", "events", "usage", "budgets", "kb", "up", "status"]
    imported = "".join(f"import_module('cli.{name}'); " for name in commands)
    told = "print(*{'aes_client', 'httpx', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", listed + imported + told], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cli import up
from deploy.local import control
from deploy.local.caller_settings import changed_settings, check_settings
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.processes import Identity
from deploy.local.state import ProcessState, StackState


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AES_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("AES_LOG_LEVEL=foo", "AES_LOG_LEVEL is invalid: must be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'."),
        ("AES_RUNTIME_LEASE_SECONDS=soon", "AES_RUNTIME_LEASE_SECONDS is invalid: "),
        ("AES_SIGNING_KEY=short", "AES_SIGNING_KEY is invalid: "),
        ("AES_GATEWAY_PORT=99999", "AES_GATEWAY_PORT isn't a port: '99999'."),
        ("AES_KAFKA_PORT=0", "AES_KAFKA_PORT isn't a port: '0'."),
        ("OPENAI_BASE_URL=nonsense", "OPENAI_BASE_URL isn't a URL: 'nonsense'."),
        ("VLLM_BASE_URL=http://h:port/v1", "VLLM_BASE_URL isn't a URL: 'http://h:port/v1'."),
        ("OLLAMA_BASE_URL=127.0.0.1:11434/v1", "OLLAMA_BASE_URL isn't a URL: "),
    ],
)
def test_an_invalid_setting_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, says: str
) -> None:
    """Also when the stack is running, and would ignore it."""
    StackState(supervisor=Identity.of(os.getpid()), phase="running").write(tmp_path / "state.json")
    monkeypatch.setenv(*setting.split("=", 1))
    with pytest.raises(StackError, match=re.escape(says)):
        control.bring_up(Home(tmp_path), lambda _: None)


def test_settings_of_parts_that_the_stack_runs_itself_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_KAFKA_SECURITY_PROTOCOL", "none of these")
    monkeypatch.setenv("AES_LOG_LEVEL", "debug")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9000/v1")
    check_settings(os.environ)


_STARTED_WITH = {"OPENAI_API_KEY": "old", "AES_TOPIC_PREFIX": "x-", "AES_SIGNING_KEY": "k" * 32, "HOME": "/root"}


@pytest.fixture
def running() -> Iterator[StackState]:
    """A supervisor and a gateway that do nothing but have an environment."""
    waits = [sys.executable, "-c", "input()"]
    supervisor = subprocess.Popen(waits, env=_STARTED_WITH, stdin=subprocess.PIPE)
    its_own = {**_STARTED_WITH, "AES_LOG_LEVEL": "info", "AES_GATEWAY_PORT": "8080"}
    gateway = subprocess.Popen(waits, env=its_own, stdin=subprocess.PIPE)
    state = StackState(supervisor=Identity.of(supervisor.pid), phase="running")
    state.parts["gateway"] = ProcessState("gateway", "ready", pid=gateway.pid, port=8080)
    state.parts["kafka"] = ProcessState("kafka", "ready", port=9092)
    yield state
    for process in (supervisor, gateway):
        process.communicate(b"\n")


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        ({}, []),
        ({"AES_LOG_LEVEL": "info", "AES_GATEWAY_PORT": "8080", "AES_KAFKA_PORT": "9092"}, []),
        ({"AES_LOG_LEVEL": "debug"}, ["AES_LOG_LEVEL"]),
        ({"OPENAI_API_KEY": "new", "https_proxy": "http://proxy"}, ["OPENAI_API_KEY", "https_proxy"]),
        ({"AES_GATEWAY_PORT": "9000", "AES_KAFKA_PORT": "9093"}, ["AES_GATEWAY_PORT", "AES_KAFKA_PORT"]),
        ({"AES_TOPIC_PREFIX": None}, ["AES_TOPIC_PREFIX"]),
        ({"AES_HOME": "/elsewhere", "AES_KAFKA_PASSWORD": "p", "AES_RUNTIME_URL": "http://x", "EDITOR": "vi"}, []),
    ],
)
def test_settings_that_differ_from_those_of_the_running_stack(
    running: StackState, now: dict[str, str | None], changed: list[str]
) -> None:
    caller = {name: value for name, value in {**_STARTED_WITH, **now}.items() if value is not None}
    assert changed_settings(running, caller) == changed


def test_up_names_the_settings_that_the_running_stack_does_not_use(
    running: StackState, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AES_LOG_LEVEL", "debug")
    monkeypatch.setattr(up, "bring_up", lambda *_: (running, False))
    monkeypatch.setattr(up, "development_key", lambda _: "key")
    up.up(json_output=True)
    said = capsys.readouterr().err
    assert "AES_LOG_LEVEL" in said
    assert "./aes down && ./aes up" in said


def test_a_process_that_is_gone_has_no_settings() -> None:
    gone = psutil.Process().pid + 10_000_000
    assert changed_settings(StackState(supervisor=Identity(gone, 0.0)), {"AES_LOG_LEVEL": "debug"}) == []

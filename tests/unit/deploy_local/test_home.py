"""Home of an embedded stack: its files, credentials, and the settings that callers gave."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cli import up
from deploy.local import control
from deploy.local.caller_settings import changed_settings, check_settings
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.files import read_json, tail, write_atomically
from deploy.local.home import Home
from deploy.local.processes import Identity
from deploy.local.services import DATABASES
from deploy.local.state import ProcessState, StackState
from libs.secrets import parse_keys


def test_downloads_may_be_kept_elsewhere_and_cleared_away_there(tmp_path: Path) -> None:
    elsewhere = tmp_path / "another disk" / "cache"
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.cache.symlink_to(elsewhere)
    for _ in range(2):
        home.create()
        assert home.cache.is_symlink()
        assert elsewhere.is_dir()


def test_other_users_can_read_nothing_of_the_state(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o700
    # PostgreSQL's own user passes through, on stacks that root runs; it needs no more than that.
    home.root.chmod(0o755)
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o711


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_atomically(file, "old", mode=0o600)
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "\udc80")
    assert file.read_text() == "old"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_json_that_is_no_object_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("[1]")
    (tmp_path / "half").write_text('{"a":')
    assert [read_json(tmp_path / name) for name in ("list", "half", "missing")] == [{}, {}, {}]


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert tail(log, 2) == ["line 998", "line 999"]
    assert tail(log, 0) == []
    assert tail(log, 100, most_bytes=20) == ["line 998", "line 999"]
    began = log.stat().st_size - len("line 999\n")
    assert tail(log, 100, since=began) == ["line 999"]
    assert tail(tmp_path / "missing", 5) == []


def test_secrets_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    first = Credentials.load_or_create(file)
    assert Credentials.load_or_create(file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(first.signing_key) >= 32
    assert len(parse_keys(first.secrets_key)) == 1


def test_every_service_has_a_password_of_its_own(tmp_path: Path) -> None:
    passwords = Credentials.load_or_create(tmp_path / "credentials.json").databases
    assert set(passwords) == set(DATABASES)
    assert len(set(passwords.values())) == len(DATABASES)


def test_a_service_added_later_gets_a_password_and_the_others_keep_theirs(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    file.write_text('{"signing_key": "s", "administrator": "a", "databases": {"gateway": "g"}}')
    credentials = Credentials.load_or_create(file)
    assert (credentials.signing_key, credentials.databases["gateway"]) == ("s", "g")
    assert credentials.databases["runtime"]


def test_keys_that_somebody_gave_are_kept_for_the_next_start(tmp_path: Path) -> None:
    """The stack encrypts with them, so a start without them has to know them."""
    file = tmp_path / "credentials.json"
    made = Credentials.load_or_create(file)
    made.with_secrets_keys(" new , older,", file)
    stored = Credentials.load_or_create(file)
    assert stored.secrets_key == f"new,older,{made.secrets_key}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    stored.with_secrets_keys("new", file, drop_others=True)
    assert Credentials.load_or_create(file).secrets_key == "new"


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
        ("AES_GATEWAY_PORT=99999", "Invalid port in AES_GATEWAY_PORT: '99999'."),
        ("AES_KAFKA_PORT=0", "Invalid port in AES_KAFKA_PORT: '0'."),
        ("OPENAI_BASE_URL=nonsense", "Invalid URL in OPENAI_BASE_URL: 'nonsense'."),
        ("VLLM_BASE_URL=http://h:port/v1", "Invalid URL in VLLM_BASE_URL: 'http://h:port/v1'."),
        ("OLLAMA_BASE_URL=127.0.0.1:11434/v1", "Invalid URL in OLLAMA_BASE_URL: "),
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

import asyncio
import base64
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.doctor import bus, command, machine
from cli.doctor.findings import Check, Finding, compare_clocks, examine, ok
from cli.installation import find_installation
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.state import ProcessState
from deploy.local.status import Status
from libs.contracts.topics import with_dead_letters
from libs.persistence import newest_revision


@pytest.mark.parametrize(
    ("theirs", "level", "detail"),
    [
        (100.4, "ok", "in sync with this machine"),
        (102.0, "ok", "1.0 s ahead of this machine"),
        (103.5, "failed", "2.5 s ahead of this machine"),
        (90.0, "failed", "10.0 s behind this machine"),
    ],
)
def test_clocks_are_compared_within_what_asking_takes(theirs: float, level: str, detail: str) -> None:
    found = compare_clocks("clock", theirs, before=100.0, after=101.0)

    assert (found.level, found.detail) == (level, detail)
    assert bool(found.remedy) is (level == "failed")


@pytest.mark.parametrize(
    ("key", "level"), [("", "skipped"), ("short", "failed"), ("a" * 40, "warning"), ("0123456789abcdef" * 3, "ok")]
)
def test_a_signing_key_is_long_and_made_at_random(key: str, level: str) -> None:
    found = machine._signing_key(key)

    assert found.level == level
    assert not key or key not in str(found)


@pytest.mark.parametrize(
    ("keys", "level"),
    [
        ("", "skipped"),
        ("short", "failed"),
        (base64.b64encode(b"a" * 32).decode(), "warning"),
        (f"{base64.b64encode(bytes(range(32))).decode()},{base64.b64encode(b'old' * 10 + b'er').decode()}", "ok"),
    ],
)
def test_secrets_keys_have_32_bytes_made_at_random(keys: str, level: str) -> None:
    found = machine._secrets_key(keys)

    assert found.level == level
    assert not keys or keys not in str(found)


@pytest.mark.parametrize(("low", "full", "level"), [(0, 0, "ok"), (2**62, 0, "warning"), (2**62, 2**61, "failed")])
def test_a_disk_has_room(tmp_path: Path, low: int, full: int, level: str) -> None:
    assert machine._disk("objects", tmp_path / "not" / "made" / "yet", low, full).level == level


def test_topics_are_there_with_their_partitions() -> None:
    there = {f"p-{topic.name}": [{}] * topic.partitions for topic in with_dead_letters()}
    assert [found.level for found in bus._topics(there, "p-")] == ["ok"]

    there["p-runtime-events"] = [{}]
    del there["p-runtime-commands"]
    found = {finding.check: finding for finding in bus._topics(there, "p-")}
    assert found["topics"].detail == "missing: p-runtime-commands"
    assert found["topic p-runtime-events"].detail == "partitions: 1 instead of 6"


def test_a_check_that_breaks_off_is_a_finding_with_its_remedy() -> None:
    async def fine() -> list[Finding]:
        return [ok("fine", "it is")]

    async def broken() -> list[Finding]:
        raise ConnectionRefusedError("nobody listens\nat all")

    found = asyncio.run(examine([Check("fine", fine, "none"), Check("broken", broken, "start it")]))

    assert [(one.check, one.level, one.detail, one.remedy) for one in found] == [
        ("fine", "ok", "it is", ""),
        ("broken", "failed", "nobody listens", "start it"),
    ]


def test_addresses_in_the_environment_are_what_is_examined(tmp_path: Path) -> None:
    installation = find_installation(
        {
            "AES_KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
            "AES_TOPIC_PREFIX": "p-",
            "AES_RUNTIME_DATABASE_URL": "postgresql://u:secret@db/runtime",
            "AES_GATEWAY_URL": "http://gateway:8000",
            "AES_INGESTION_OBJECTS_URL": f"file:{tmp_path}",
            "AES_INGESTION_WEAVIATE_URL": "http://weaviate:8080",
        }
    )

    assert (installation.bus.servers, installation.bus.prefix, installation.home) == ("kafka:9092", "p-", None)
    assert (dict(installation.services), installation.weaviate) == (
        {"gateway": "http://gateway:8000"},
        ("http://weaviate:8080", 50051),
    )
    assert installation.directories == {"objects of ingestion": tmp_path}
    assert "secret" not in repr(installation)
    names = [check.name for check in command.checks_of(installation)]
    assert names == [
        *("keys", "disk", "kafka", "clock of kafka", "database of runtime", "service gateway", "weaviate"),
    ]


def test_a_stack_that_does_not_run_is_one_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    monkeypatch.delenv("AES_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(StackError, match="No installation found"):
        find_installation({})

    Credentials.load_or_create(tmp_path / "credentials.json")
    result = CliRunner().invoke(command.app, ["--json"])

    found = {one["check"]: one for one in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 1
    assert (found["stack"]["detail"], found["stack"]["remedy"]) == ("the stack is stopped", "Start it with: ./aes up")
    assert found["signing key"]["state"] == found["secrets key"]["state"] == "ok"
    assert not [name for name in found if name.startswith(("kafka", "database"))]


@pytest.mark.parametrize(
    ("restarts", "asked", "level", "detail"),
    [
        (0, 0, "ok", "all 1 processes are ready"),
        (1, 1, "ok", "all 1 processes are ready; restarted on request: runtime once"),
        (3, 1, "warning", "crashed and was restarted 2 times"),
    ],
)
async def test_a_restart_on_request_is_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int, asked: int, level: str, detail: str
) -> None:
    async def read_status(_: Home) -> Status:
        runtime = ProcessState("runtime", "ready", pid=1, restarts=restarts, asked_restarts=asked)
        return Status("running", "http://127.0.0.1:8080", {"runtime": runtime})

    monkeypatch.setattr(machine, "read_status", read_status)
    [found] = await machine._stack(Home(tmp_path))

    assert (found.level, found.detail) == (level, detail)


def test_migrations_are_read_from_the_services_themselves() -> None:
    assert newest_revision(PROJECT_ROOT / "services" / "gateway" / "migrations") >= "0001"

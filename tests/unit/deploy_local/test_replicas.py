import json
from pathlib import Path

import pytest

from deploy.local.control import parts_of
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.processes import Identity
from deploy.local.stack import build_stack, parse_replicas
from deploy.local.state import ProcessState, StackState
from deploy.local.status import ProcessStatus, Status

NAMES = ("gateway", "runtime")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {"gateway": 1, "runtime": 1}),
        ("runtime=2", {"gateway": 1, "runtime": 2}),
        (" runtime=3, gateway=2 ,", {"gateway": 2, "runtime": 3}),
        ("2", {"gateway": 2, "runtime": 2}),
        ("2,runtime=1", {"gateway": 2, "runtime": 1}),
    ],
)
def test_replicas_are_read(text: str, counts: dict[str, int]) -> None:
    assert parse_replicas(text, NAMES) == counts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("runtime", "must be a number, or SERVICE=NUMBER"),
        ("runtime=x", "must be a number, or SERVICE=NUMBER"),
        ("runtime=²", "must be a number, or SERVICE=NUMBER"),
        ("٢", "must be a number, or SERVICE=NUMBER"),
        ("-1", "must be a number, or SERVICE=NUMBER"),
        ("runtime=0", "1 to 4 replicas"),
        ("runtime=9", "1 to 4 replicas"),
        ("5", "1 to 4 replicas"),
    ],
)
def test_a_number_of_replicas_that_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(StackError, match=f"Invalid number of replicas {text!r}: .*{says}"):
        parse_replicas(text, NAMES)


@pytest.mark.parametrize(("text", "service"), [("kafka=2", "kafka"), ("=2", "")])
def test_replicas_of_an_unknown_service_are_refused(text: str, service: str) -> None:
    with pytest.raises(StackError, match=f"Unknown service {service!r} in --replicas {text!r}"):
        parse_replicas(text, NAMES)


def test_each_replica_has_a_port_and_a_log_and_all_are_told_of_each(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    alone = {part.name: part for part in build_stack(home, {}).services}
    parts = {part.name: part for part in build_stack(home, {"AES_REPLICAS": "runtime=2,ingestion=2"}).services}
    assert set(parts) - set(alone) == {"runtime-2", "ingestion-all-2", "ingestion-streams-2"}
    assert all(parts[name].port == part.port for name, part in alone.items())
    ports = [part.port for part in parts.values()]
    assert len(set(ports)) == len(ports)
    first, second = parts["runtime"], parts["runtime-2"]
    assert second.environment["AES_RUNTIME_PORT"] == str(second.port)
    assert second.environment["AES_RUNTIME_URL"] == f"http://127.0.0.1:{first.port},http://127.0.0.1:{second.port}"
    assert second.log != first.log
    streams = parts["ingestion-streams-2"]
    assert streams.environment["AES_INGESTION_STREAMS_PORT"] == str(streams.port)
    assert str(streams.port) not in streams.environment["AES_INGESTION_URL"]


def test_the_status_of_several_processes_keeps_its_form() -> None:
    parts = [
        ProcessStatus(f"runtime{n}", "runtime", pid, 2000 + pid, "ready", 0, "") for n, pid in (("", 7), ("-2", 8))
    ]
    runtime = Status("running", "", parts).as_json()["services"]["runtime"]
    assert (runtime["pid"], runtime["port"], runtime["state"]) == (7, 2007, "ready")
    assert [process["name"] for process in runtime["processes"]] == ["runtime", "runtime-2"]


def test_what_is_restarted(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    with pytest.raises(StackError, match="isn't running"):
        parts_of(home, [])
    itself = Identity.of(1)
    names = {"kafka": "kafka", "gateway": "gateway", "runtime": "runtime", "runtime-2": "runtime"}
    parts = {name: ProcessState(service) for name, service in names.items()}
    StackState(supervisor=itself, phase="running", parts=parts).write(home.state_file)
    assert json.loads(home.state_file.read_text())["phase"] == "running"
    assert parts_of(home, []) == ["gateway", "runtime", "runtime-2"]
    assert parts_of(home, ["runtime"]) == ["runtime", "runtime-2"]
    assert parts_of(home, ["runtime-1"]) == ["runtime"]
    assert parts_of(home, ["runtime-2", "gateway"]) == ["gateway", "runtime-2"]
    with pytest.raises(StackError, match="kafka"):
        parts_of(home, ["kafka"])

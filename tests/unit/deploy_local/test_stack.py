"""Parts of an embedded stack: which there are, on which ports, and when they are ready."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.local import ports
from deploy.local.control import parts_of
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.managed_process import ServiceProcess
from deploy.local.ports import allocate, choose_free, is_free
from deploy.local.probes import is_ready
from deploy.local.processes import Identity
from deploy.local.services import ProcessRole, Service
from deploy.local.stack import build_stack, parse_replicas
from deploy.local.state import ProcessState, StackState
from deploy.local.status import Status

SERVICES = (
    Service("gateway"),
    Service("runtime"),
    Service("ingestion", (ProcessRole("api"), ProcessRole("stream worker", port_setting="AES_INGESTION_STREAMS_PORT"))),
    Service("artifacts", environment={"AES_ARTIFACTS_DIRECTORY": "{home}/objects"}),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.create()
    return home


def processes(home: Home, caller: Mapping[str, str]) -> dict[str, ServiceProcess]:
    return {part.name: part for part in build_stack(home, caller, SERVICES).services}


def test_a_service_is_told_its_own_database_and_every_address(home: Home) -> None:
    parts = processes(home, {})
    runtime = parts["runtime"].environment
    assert runtime["AES_RUNTIME_DATABASE_URL"].startswith("postgresql://runtime:")
    assert runtime["AES_RUNTIME_PORT"] == str(parts["runtime"].port)
    assert runtime["AES_GATEWAY_URL"] == f"http://127.0.0.1:{parts['gateway'].port}"
    assert runtime["AES_INGESTION_URL"] == f"http://127.0.0.1:{parts['ingestion-api'].port}"
    assert runtime["AES_AUTO_MIGRATE"] == "1"
    assert len(runtime["AES_SIGNING_KEY"]) >= 32


def test_services_that_do_not_run_have_no_address(home: Home) -> None:
    stack = build_stack(home, {}, (Service("gateway"),))
    assert "AES_INGESTION_URL" not in stack.services[0].environment


def test_a_service_of_several_processes_becomes_several_parts(home: Home) -> None:
    parts = processes(home, {})
    worker = parts["ingestion-stream-worker"]
    assert (worker.service, worker.role) == ("ingestion", "stream worker")
    assert worker.command().arguments[1:] == ["-m", "services.ingestion", "stream", "worker"]
    assert worker.port != parts["ingestion-api"].port


def test_the_callers_settings_and_provider_keys_reach_the_services(home: Home) -> None:
    caller = {"OPENAI_API_KEY": "k", "AES_RUNTIME_LEASE_SECONDS": "3", "AES_LOG_FORMAT": "json"}
    environment = processes(home, caller)["runtime"].environment
    assert caller.items() <= environment.items()


def test_a_later_start_reads_what_the_callers_key_encrypted(home: Home) -> None:
    made = processes(home, {})["gateway"].environment["AES_SECRETS_KEY"]
    assert processes(home, {"AES_SECRETS_KEY": "new"})["gateway"].environment["AES_SECRETS_KEY"] == "new"
    assert processes(home, {})["gateway"].environment["AES_SECRETS_KEY"] == f"new,{made}"


def test_the_caller_overrides_a_declared_setting(home: Home) -> None:
    assert processes(home, {})["artifacts"].environment["AES_ARTIFACTS_DIRECTORY"] == f"{home.root}/objects"
    environment = processes(home, {"AES_ARTIFACTS_DIRECTORY": "/elsewhere"})["artifacts"].environment
    assert environment["AES_ARTIFACTS_DIRECTORY"] == "/elsewhere"


def test_variables_of_another_postgres_do_not_reach_the_services(home: Home) -> None:
    environment = processes(home, {"PGHOST": "db.example.com", "PGSSLMODE": "require"})["runtime"].environment
    assert not [name for name in environment if name.startswith("PG")]


def test_the_topic_prefix_of_the_caller_is_used(home: Home) -> None:
    assert build_stack(home, {"AES_TOPIC_PREFIX": "x-"}, SERVICES).topic_prefix == "x-"


@pytest.mark.parametrize("value", ["abc", "0", "65536", "-1", "80.5"])
def test_a_port_that_is_none_is_refused(home: Home, value: str) -> None:
    with pytest.raises(StackError, match="AES_GATEWAY_PORT"):
        build_stack(home, {"AES_GATEWAY_PORT": value}, SERVICES)


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
    parts = {f"runtime{n}": ProcessState("runtime", "ready", 2000 + pid, pid) for n, pid in (("", 7), ("-2", 8))}
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


@asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[int]:
    """The port of a server that answers everything with those pieces, one after the other."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            # The reader, in the same loop, gets to it before the next one comes.
            for _ in range(10):
                await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_the_service_itself_is_ready() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", b'a: b\r\n\r\n{"service": ', b'"gateway"}') as port:
        assert await is_ready(port, "gateway")
        assert not await is_ready(port, "runtime")


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"service": "gateway"}',
        b"HTTP/1.1 200 OK\r\n\r\nI am another program",
        b"HTTP/1.1 200 OK\r\n\r\n[]",
        b"SSH-2.0-x\r\n",
        b"",
    ],
)
async def test_others_are_not(answer: bytes) -> None:
    async with answering(answer) as port:
        assert not await is_ready(port, "gateway")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_somebody_listens_on_is_not_free(taken: int) -> None:
    assert not is_free(taken)


def test_ports_are_remembered(tmp_path: Path) -> None:
    first = allocate(tmp_path / "ports.json", ["gateway", "kafka"], {}, {})
    again = allocate(tmp_path / "ports.json", ["gateway", "kafka"], {}, {})
    assert first == again
    assert len(set(first.values())) == 2


def test_a_remembered_port_that_was_taken_is_chosen_anew(tmp_path: Path, taken: int) -> None:
    file = tmp_path / "ports.json"
    file.write_text(json.dumps({"gateway": taken, "kafka": (kafka := choose_free())}))
    ports = allocate(file, ["gateway", "kafka"], {}, {})
    assert ports["gateway"] != taken
    assert ports["kafka"] == kafka


def test_the_preferred_port_is_used_once_it_is_free(tmp_path: Path, taken: int) -> None:
    wish = choose_free()
    assert allocate(tmp_path / "a", ["gateway"], {}, {"gateway": wish}) == {"gateway": wish}
    assert allocate(tmp_path / "b", ["gateway"], {}, {"gateway": taken})["gateway"] != taken


def test_an_asked_port_must_be_free_and_is_not_remembered(tmp_path: Path, taken: int) -> None:
    file, asked = tmp_path / "ports.json", choose_free()
    usual = allocate(file, ["gateway"], {}, {})
    assert allocate(file, ["gateway"], {"gateway": asked}, {}) == {"gateway": asked}
    assert allocate(file, ["gateway"], {}, {}) == usual
    with pytest.raises(StackError, match=f"Port {taken}, set by AES_GATEWAY_PORT, is in use"):
        allocate(file, ["gateway"], {"gateway": taken}, {})


def test_no_port_is_chosen_twice_before_somebody_listens_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_untried", [])
    chosen = [choose_free() for _ in range(300)]
    assert len(set(chosen)) == len(chosen)

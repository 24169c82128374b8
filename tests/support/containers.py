"""The servers of a test run in containers, of the images that docker-compose.yml names.

Used when AES_TEST_INFRA is `containers`; a Docker engine must answer then. Each container ends with the test run, also
with one that is killed.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import psycopg
import yaml
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from deploy.local.home import PROJECT_ROOT
from deploy.local.ports import choose_free
from deploy.local.processes import Identity
from tests.support.run_directory import RunDirectory
from tests.support.waiting import wait_until

_OWNER: Final = "aes.tests.owner"
# Nothing of a test run outlives the machine, so nothing needs to reach the disk.
_FAST: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=300", "jit=off")


def wanted() -> bool:
    """Whether the servers of this test run are to be containers. Raises for a value that means nothing."""
    chosen = os.environ.get("AES_TEST_INFRA", "embedded")
    if chosen not in ("embedded", "containers"):
        raise ValueError(f"AES_TEST_INFRA is {chosen!r}; it may be embedded or containers")
    return chosen == "containers"


@cache
def images() -> dict[str, str]:
    """By service of the Compose file: the only place that names them."""
    document = yaml.safe_load((PROJECT_ROOT / "docker-compose.yml").read_text())
    return {name: service["image"] for name, service in document["services"].items()}


@dataclass(frozen=True)
class Running:
    container: DockerContainer
    ports: Mapping[int, int]
    """The host's address as seen from the container."""

    def stop(self) -> None:
        self.container.stop()


def postgres(password: str) -> tuple[Running, str]:
    """A server with pgvector and its administrator's URL."""
    settings = [part for setting in _FAST for part in ("-c", setting)]
    # The collation of the embedded server, on which orders of texts depend.
    initialise = "--encoding=UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8"
    environment = {"POSTGRES_PASSWORD": password, "POSTGRES_INITDB_ARGS": initialise}
    running = _start("postgres", {5432: choose_free()}, environment, ["postgres", *settings])
    url = f"postgresql://postgres:{password}@127.0.0.1:{running.ports[5432]}/postgres"

    def answers() -> bool:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    _wait(running, answers)
    return running, url


def kafka() -> tuple[Running, str]:
    """A broker that creates no topics by itself, and its bootstrap servers."""
    port = choose_free()
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "OUTSIDE://:9092,INSIDE://localhost:9094,CONTROLLER://localhost:9093",
        # Clients are sent to the port of this machine, which has to be known beforehand. The broker calls itself
        # for transactions, and has to be sent to where it is in its container.
        "advertised.listeners": f"OUTSIDE://127.0.0.1:{port},INSIDE://localhost:9094",
        "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INSIDE",
        "auto.create.topics.enable": "false",
        "message.max.bytes": "4194304",
        "replica.fetch.max.bytes": "4194304",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
    }
    environment = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in settings.items()}
    running = _start("kafka", {9092: port}, {**environment, "CLUSTER_ID": "YWVzLXRlc3RzLWthZmthLWE"})
    _wait(running, lambda: _kafka_answers(port))
    return running, f"127.0.0.1:{port}"


def weaviate() -> Running:
    """Ports 8080 (REST) and 50051 (gRPC), for anybody."""
    environment = {
        "PERSISTENCE_DATA_PATH": "/var/lib/weaviate",
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
        "DEFAULT_VECTORIZER_MODULE": "none",
        "AUTOSCHEMA_ENABLED": "false",
        "CLUSTER_HOSTNAME": "weaviate",
        "RAFT_BOOTSTRAP_EXPECT": "1",
        "DISABLE_TELEMETRY": "true",
        "GO_PROFILING_DISABLE": "true",
        "LOG_LEVEL": "warning",
    }
    rest = choose_free()
    command = ["--host", "0.0.0.0", "--port", "8080", "--scheme", "http"]
    running = _start("weaviate", {8080: rest, 50051: choose_free({rest})}, environment, command)
    _wait(running, lambda: _http_answers(rest, "/v1/.well-known/ready"))
    return running


def objects(access_key: str, secret_key: str) -> Running:
    """An S3 server at port 9000."""
    environment = {"ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret_key}
    command = ["--port", ":9000", "--quiet", "--health", "/health", "posix", "--sidecar", "/metadata", "/objects"]
    in_memory = ("/metadata", "/objects")
    running = _start("objects", {9000: choose_free()}, environment, command, in_memory)
    _wait(running, lambda: _http_answers(running.ports[9000], "/health"))
    return running


def _start(
    service: str,
    ports: Mapping[int, int],
    environment: Mapping[str, str],
    command: Sequence[str] = (),
    in_memory: Sequence[str] = (),
) -> Running:
    _prepare()
    container = DockerContainer(images()[service]).with_name(f"aes-tests-{service}-{secrets.token_hex(4)}")
    for name, value in environment.items():
        container.with_env(name, value)
    for inside, outside in ports.items():
        # Nobody but this machine is to reach them: their passwords, if any, are well known.
        container.ports[f"{inside}/tcp"] = ("127.0.0.1", outside)  # type: ignore[assignment]
    if command:
        container.with_command(list(command))
    owner = RunDirectory.current().owner
    for directory in in_memory:
        container.with_tmpfs_mount(directory)
    container.with_kwargs(labels={_OWNER: json.dumps([owner.pid, owner.started])})
    return Running(container.start(), ports)


def remove_ended() -> None:
    """Removes the containers of test runs whose owner is gone."""
    _remove(lambda owner: owner.process() is None)


def remove_of(run: Identity) -> None:
    """Removes the containers of the test run with that owner."""
    _remove(lambda owner: owner == run)


def _remove(condition: Callable[[Identity], bool]) -> None:
    for container in DockerClient().client.containers.list(all=True, filters={"label": _OWNER}):
        if condition(Identity(*json.loads(container.labels[_OWNER]))):
            container.remove(force=True, v=True)


@cache
def _prepare() -> None:
    """Once per process. The reaper of testcontainers would remove containers with the process that started them."""
    testcontainers_config.ryuk_disabled = True
    remove_ended()


def _wait(running: Running, answers: Callable[[], bool]) -> None:
    container: Any = running.container.get_wrapped_container()

    def answers_while_it_runs() -> bool:
        container.reload()
        assert container.status != "exited", "it has ended"
        return answers()

    try:
        wait_until(answers_while_it_runs, "it answers", pause=0.2)
    except AssertionError as problem:
        said = b"".join(running.container.get_logs())[-3000:].decode(errors="replace")
        running.stop()
        raise RuntimeError(f"{container.image.tags} did not come up ({container.status}):\n{said}") from problem


def _kafka_answers(port: int) -> bool:
    """Whether a broker answers a client's first question, ApiVersions."""
    question = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(question)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


def _http_answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False

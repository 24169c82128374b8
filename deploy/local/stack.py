"""Builds the embedded stack's processes from its state directory and the caller's environment."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.files import read_json
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.managed_process import ServiceProcess
from deploy.local.ports import allocate
from deploy.local.postgres import Postgres
from deploy.local.processes import MARKER
from deploy.local.services import DATABASES, PREFERRED_PORTS, SERVICES, ProcessRole, Service

VARIABLE = "AES_REPLICAS"
# All processes share one machine and one PostgreSQL with a limited number of connections.
_MOST = 4


@dataclass(frozen=True)
class Stack:
    postgres: Postgres
    kafka: Kafka
    services: list[ServiceProcess]
    topic_prefix: str

    @property
    def base_url(self) -> str:
        return next(f"http://127.0.0.1:{part.port}" for part in self.services if part.service == "gateway")


def build_stack(home: Home, caller: Mapping[str, str], services: Sequence[Service] = SERVICES) -> Stack:
    """Returns the stack's processes. Chooses ports and creates missing secrets. The stack must not be running."""
    processes = list(_processes(caller, services))
    ports = allocate(home.ports_file, _port_names(processes), requested_ports(caller, services), PREFERRED_PORTS)
    credentials = Credentials.load_or_create(home.credentials_file)
    if given := caller.get("AES_SECRETS_KEY"):
        credentials = credentials.with_secrets_keys(given, home.credentials_file)
    # PG… variables would redirect the services' clients to another server.
    inherited = {name: value for name, value in caller.items() if not name.startswith("PG")}
    inherited[MARKER] = str(home.root)
    postgres = postgres_of(home, credentials, inherited)
    kafka = Kafka(
        directory=home.kafka,
        log=home.log_of("kafka"),
        cache=home.cache,
        port=ports["kafka"],
        controller_port=ports["kafka-controller"],
        environment=inherited,
        password=credentials.kafka,
    )
    environment = {
        **_defaults(credentials),
        **inherited,
        **_contract(processes, ports, postgres, kafka),
    }
    parts = []
    for part, service, process in processes:
        own = {name: value.format(home=home.root) for name, value in service.environment.items()}
        address = {process.port_setting or f"AES_{service.name.upper()}_PORT": str(ports[part])}
        parts.append(
            ServiceProcess(
                service=service.name,
                name=part,
                role=process.role,
                port=ports[part],
                log=home.log_of(part),
                environment={**own, **environment, **address},
            )
        )
    return Stack(postgres, kafka, parts, caller.get("AES_TOPIC_PREFIX", ""))


def postgres_of(home: Home, credentials: Credentials, environment: Mapping[str, str] | None = None) -> Postgres:
    return Postgres(
        directory=home.postgres,
        log=home.log_of("postgres"),
        port=int(read_json(home.ports_file).get("postgres", 0)),
        password=credentials.administrator,
        environment=dict(environment or {}),
        databases=credentials.databases,
    )


class _Process(NamedTuple):
    part: str
    """Name of the process in the stack."""
    service: Service
    process: ProcessRole


def _processes(caller: Mapping[str, str], services: Sequence[Service]) -> Iterator[_Process]:
    """Yields all processes of the services, with the caller's numbers of replicas."""
    replicas = parse_replicas(caller.get(VARIABLE, ""), [service.name for service in services])
    for service in services:
        for process in service.processes:
            several = len(service.processes) > 1
            name = f"{service.name}-{process.role.replace(' ', '-')}" if several else service.name
            # The first process has the same name, port and log as a single process.
            for replica in range(1, replicas[service.name] + 1):
                yield _Process(name if replica == 1 else f"{name}-{replica}", service, process)


def _defaults(credentials: Credentials) -> dict[str, str]:
    """Returns the services' settings that the caller's variables can override."""
    return {
        "AES_SIGNING_KEY": credentials.signing_key,
        "AES_SECRETS_KEY": credentials.secrets_key,
        "AES_TOPIC_PREFIX": "",
        "AES_LOG_FORMAT": "console",
        "AES_LOG_LEVEL": "info",
        "PYTHONUNBUFFERED": "1",
        **{f"AES_{service.upper()}_HOST": "127.0.0.1" for service in DATABASES},
    }


def _contract(processes: list[_Process], ports: Mapping[str, int], postgres: Postgres, kafka: Kafka) -> dict[str, str]:
    """Returns the settings that connect the services to each other, PostgreSQL and Kafka."""
    # Overrides the caller's variables for another broker.
    settings = {**kafka.settings, "AES_AUTO_MIGRATE": "1"}
    for name in DATABASES:
        settings[f"AES_{name.upper()}_DATABASE_URL"] = postgres.url(name)
    for part, service, process in processes:
        variable, address = f"AES_{service.name.upper()}_URL", f"http://127.0.0.1:{ports[part]}"
        if process.port_setting:
            # This process responds only to health checks.
            variable, address = "AES_GATEWAY_REPLICA_URLS", f"{service.name}={address}"
        settings[variable] = f"{settings[variable]},{address}" if variable in settings else address
    return settings


def _port_names(processes: Iterable[_Process]) -> list[str]:
    return ["postgres", "kafka", "kafka-controller", *(each.part for each in processes)]


def requested_ports(caller: Mapping[str, str], services: Sequence[Service] = SERVICES) -> dict[str, int]:
    """Returns the ports in the caller's variables, by process. Raises StackError if a port is invalid."""
    asked = {}
    for name in _port_names(_processes(caller, services)):
        variable = f"AES_{name.upper().replace('-', '_')}_PORT"
        value = caller.get(variable)
        if value:
            if not (value.isascii() and value.isdecimal()) or not 0 < int(value) < 65536:
                raise StackError(
                    f"Invalid port in {variable}: {value!r}.", "Use a number from 1 to 65535, or unset the variable."
                )
            asked[name] = int(value)
    return asked


def parse_replicas(text: str, services: Collection[str]) -> dict[str, int]:
    """Parses `runtime=2,gateway=2`, or a number for every service. Raises StackError if the text is invalid."""
    counts = dict.fromkeys(services, 1)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, number = part.rpartition("=")
        named = [name] if separator else list(services)
        known = ", ".join(services)
        if not (number.isascii() and number.isdecimal()):
            raise StackError(
                f"Invalid number of replicas {part!r}: it must be a number, or SERVICE=NUMBER.",
                "Use a value such as runtime=2,gateway=2, or just 2.",
            )
        if not counts.keys() >= set(named):
            raise StackError(f"Unknown service {name!r} in --replicas {part!r}.", f"Services: {known}.")
        if not 1 <= int(number) <= _MOST:
            raise StackError(
                f"Invalid number of replicas {part!r}: the embedded stack runs 1 to {_MOST} replicas of a service.",
                f"Use a number from 1 to {_MOST}.",
            )
        counts.update(dict.fromkeys(named, int(number)))
    return counts

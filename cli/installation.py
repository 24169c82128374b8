"""The installation that commands work on: the one that the AES_… variables point to, or the embedded stack."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.files import read_json
from deploy.local.home import Home
from deploy.local.kafka import USERNAME
from deploy.local.services import DATABASES, SERVICES
from deploy.local.stack import postgres_of
from deploy.local.state import StackState
from libs.contracts.errors import validation_message
from libs.eventing import KafkaConnection, KafkaSettings


@dataclass(frozen=True)
class BusAddress:
    kafka: KafkaConnection
    prefix: str
    """The prefix of every topic and consumer group."""

    @property
    def servers(self) -> str:
        """The brokers, as a comma-separated list of host:port pairs."""
        return self.kafka.servers


@dataclass(frozen=True, kw_only=True)
class Installation:
    title: str
    bus: BusAddress | None = None
    databases: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Database URLs by service."""
    services: Mapping[str, str] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Object store URLs by service."""
    weaviate: tuple[str, int] | None = None
    """The URL of the REST API, and the port of the gRPC API."""
    signing_key: str = field(default="", repr=False)
    secrets_key: str = field(default="", repr=False)
    home: Home | None = None
    """The embedded stack's state directory, or None for other installations."""

    @property
    def runs(self) -> bool:
        """Whether the embedded stack is running. Other installations are assumed to run."""
        return self.home is None or StackState.read(self.home.state_file).is_supervised()

    @property
    def directories(self) -> dict[str, Path]:
        """The data directories on this machine, keyed by a description of their content."""
        found = {} if self.home is None else {"the embedded stack": self.home.root}
        for service, url in self.objects.items():
            if url.startswith("file:"):
                found[f"objects of {service}"] = Path(unquote(urlsplit(url).path))
        return found


def find_installation(environment: Mapping[str, str] = os.environ) -> Installation:
    """Returns the installation that the AES_… variables point to or, if none is set, the embedded stack.

    Raises StackError if there's neither.
    """
    if names_addresses(environment):
        return _installation(environment)
    home = Home.from_environment()
    if not home.credentials_file.exists():
        raise StackError(
            "No installation found: there's no embedded stack, and the environment contains no addresses.",
            "Start the stack with ./aes up, or set AES_KAFKA_BOOTSTRAP_SERVERS, AES_<SERVICE>_DATABASE_URL, …",
        )
    return _stack(home, environment)


def running_installation() -> Installation:
    """Returns the installation. Raises StackError if there's none, or if it's an embedded stack that isn't running."""
    found = find_installation()
    if not found.runs:
        raise StackError("The embedded stack isn't running.", "Start it with: ./aes up")
    return found


def bus_address() -> BusAddress:
    """Returns the address of the installation's Kafka. Raises StackError if it's down or not configured."""
    if (bus := running_installation().bus) is None:
        raise StackError(
            "Kafka isn't configured.", "Set AES_KAFKA_BOOTSTRAP_SERVERS to a broker's address (host:port)."
        )
    return bus


def named_bus(environment: Mapping[str, str] = os.environ) -> BusAddress | None:
    """Returns Kafka's address from the AES_KAFKA_… variables, or None if they aren't set.

    Raises StackError if they're invalid.
    """
    if not environment.get("AES_KAFKA_BOOTSTRAP_SERVERS"):
        return None
    try:
        given = {name: value for name, value in environment.items() if name.startswith("AES_KAFKA_")}
        return BusAddress(KafkaSettings.model_validate(given).kafka(), environment.get("AES_TOPIC_PREFIX", ""))
    except ValidationError as problem:
        # Values are omitted, since one may be a password.
        found = problem.errors(include_input=False, include_url=False)
        problems = "; ".join(": ".join([*map(str, error["loc"]), validation_message(error)]) for error in found)
        raise StackError(f"Kafka's settings are invalid: {problems}", "See docs/reference/configuration.md.") from None


def embedded_bus(home: Home, port: int, prefix: str) -> BusAddress:
    """Returns the address of the embedded stack's Kafka."""
    kafka = KafkaConnection(
        servers=f"127.0.0.1:{port}",
        security_protocol="sasl_plaintext",
        sasl_mechanism="PLAIN",
        username=USERNAME,
        password=home.kafka_password_file.read_text().strip(),
    )
    return BusAddress(kafka, prefix)


def names_addresses(environment: Mapping[str, str]) -> bool:
    names = ["AES_KAFKA_BOOTSTRAP_SERVERS", *(f"AES_{name.upper()}_DATABASE_URL" for name in DATABASES)]
    return any(environment.get(name) for name in names)


def _installation(environment: Mapping[str, str]) -> Installation:
    return Installation(
        title="the installation that the AES_… variables point to",
        bus=named_bus(environment),
        databases=_of_services(environment, "DATABASE_URL"),
        services=_of_services(environment, "URL"),
        objects=_of_services(environment, "OBJECTS_URL"),
        weaviate=_weaviate(environment),
        signing_key=environment.get("AES_SIGNING_KEY", ""),
        secrets_key=environment.get("AES_SECRETS_KEY", ""),
    )


def _stack(home: Home, environment: Mapping[str, str]) -> Installation:
    credentials = Credentials.load_or_create(home.credentials_file)
    postgres = postgres_of(home, credentials)
    ports = read_json(home.ports_file)
    objects = {
        service.name: url.format(home=home.root)
        for service in SERVICES
        if (url := service.environment.get(f"AES_{service.name.upper()}_OBJECTS_URL"))
    }
    # The password is created when Kafka starts for the first time.
    is_made = home.kafka_password_file.exists()
    bus = embedded_bus(home, ports.get("kafka", 0), environment.get("AES_TOPIC_PREFIX", "")) if is_made else None
    return Installation(
        title=f"the embedded stack in {home.root}",
        bus=bus,
        databases={name: postgres.url(name) for name in DATABASES},
        objects={**objects, **_of_services(environment, "OBJECTS_URL")},
        weaviate=_weaviate(environment),
        signing_key=environment.get("AES_SIGNING_KEY") or credentials.signing_key,
        secrets_key=environment.get("AES_SECRETS_KEY") or credentials.secrets_key,
        home=home,
    )


def _of_services(environment: Mapping[str, str], ending: str) -> dict[str, str]:
    found = {name: environment.get(f"AES_{name.upper()}_{ending}", "") for name in DATABASES}
    return {name: value for name, value in found.items() if value}


def _weaviate(environment: Mapping[str, str]) -> tuple[str, int] | None:
    url = environment.get("AES_INGESTION_WEAVIATE_URL")
    return (url, int(environment.get("AES_INGESTION_WEAVIATE_GRPC_PORT") or 50051)) if url else None

"""Describes the installation to examine: the one of the AES_… variables, or the embedded stack."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cli.bus_address import BusAddress, embedded_bus, named_kafka
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.files import read_json
from deploy.local.home import Home
from deploy.local.services import DATABASES, SERVICES
from deploy.local.stack import postgres_of


@dataclass(frozen=True, kw_only=True)
class Installation:
    title: str
    bus: BusAddress | None = None
    databases: Mapping[str, str] = field(default_factory=dict, repr=False)
    """URL by service."""
    services: Mapping[str, str] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict, repr=False)
    """URL of the object store by service."""
    weaviate: tuple[str, int] | None = None
    """Address of its REST API and port of its gRPC API."""
    signing_key: str = field(default="", repr=False)
    secrets_key: str = field(default="", repr=False)
    home: Home | None = None
    """State directory of the embedded stack; None for another installation."""

    @property
    def directories(self) -> dict[str, Path]:
        """Data directories on this machine by their content."""
        found = {} if self.home is None else {"the embedded stack": self.home.root}
        for service, url in self.objects.items():
            if url.startswith("file:"):
                found[f"objects of {service}"] = Path(unquote(urlsplit(url).path))
        return found


def find_installation(environment: Mapping[str, str] = os.environ) -> Installation:
    """Takes the installation of the AES_… variables when any is set, else the embedded stack. Raises StackError."""
    if names_addresses(environment):
        return _installation(environment)
    home = Home.from_environment()
    if not home.credentials_file.exists():
        raise StackError(
            "There is nothing to work on: no embedded stack, and no address in the environment.",
            "Start the stack with: ./aes up, or set AES_KAFKA_BOOTSTRAP_SERVERS, AES_<SERVICE>_DATABASE_URL, …",
        )
    return _stack(home, environment)


def names_addresses(environment: Mapping[str, str]) -> bool:
    names = ["AES_KAFKA_BOOTSTRAP_SERVERS", *(f"AES_{name.upper()}_DATABASE_URL" for name in DATABASES)]
    return any(environment.get(name) for name in names)


def _installation(environment: Mapping[str, str]) -> Installation:
    named = environment.get("AES_KAFKA_BOOTSTRAP_SERVERS")
    return Installation(
        title="the installation that the AES_… variables name",
        bus=BusAddress(named_kafka(environment), environment.get("AES_TOPIC_PREFIX", "")) if named else None,
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
    # The password is made when Kafka is first started.
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

"""The services of the embedded stack. To add a service, add a line here."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProcessRole:
    """An operating system process of a service."""

    role: str
    """The arguments of `python -m services.<name>`."""
    port_setting: str = ""
    """The variable that sets the process's port. If empty, the service's own variable sets the port."""


@dataclass(frozen=True)
class Service:
    name: str
    processes: tuple[ProcessRole, ...] = (ProcessRole("all"),)
    environment: Mapping[str, str] = field(default_factory=dict)
    """The service's own settings. `{home}` in a value is replaced with the state directory."""


SERVICES: tuple[Service, ...] = (
    Service("gateway"),
    Service("registry"),
    Service("runtime"),
    Service(
        "ingestion",
        processes=(ProcessRole("all"), ProcessRole("streams", port_setting="AES_INGESTION_STREAMS_PORT")),
        environment={"AES_INGESTION_OBJECTS_URL": "file:{home}/objects/ingestion"},
    ),
    Service("artifacts", environment={"AES_ARTIFACTS_OBJECTS_URL": "file:{home}/objects/artifacts"}),
    Service("timeline"),
)
DATABASES = tuple(service.name for service in SERVICES)
PREFERRED_PORTS = {"gateway": 8080}

"""Checks the settings in the environment of `aes up`, and compares them with the running stack's."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import psutil

from deploy.local.errors import StackError
from deploy.local.services import SERVICES
from deploy.local.stack import requested_ports
from deploy.local.state import StackState

if TYPE_CHECKING:
    from libs.service_defaults import ServiceSettings

COMMAND_VARIABLES: Final = {
    "AES_HOME": ("`.aes` in the project", "Directory for the embedded stack's state."),
    "AES_PYTHON": ("none", "Python interpreter with all packages. If unset, `aes` creates an environment."),
    "AES_PUBLIC_URL": ("`AES_BASE_URL`", "URL that the demo prints, if it differs from the base URL."),
    "AES_MAVEN_REPOSITORY": ("Maven Central", "Maven repository for Apache Kafka's JAR files."),
    "JAVA_HOME": ("`java` on the `PATH`, or else a bundled Java", "Installation directory of Java 17 or newer."),
}
"""Default and description of each environment variable that commands read and that isn't an option."""
# Variables that only commands read, or that are compared with the running stack elsewhere.
_NOT_OF_SERVICES = frozenset({*COMMAND_VARIABLES, "AES_REPLICAS", "AES_BASE_URL", "AES_API_KEY", "AES_STACK"})
# Variables that the stack sets itself.
_OF_THE_STACK = re.compile(r"AES_(KAFKA_(?!PORT).*|AUTO_MIGRATE|GATEWAY_REPLICA_URLS|[A-Z]+_(DATABASE_)?URL)")
_NETWORK = re.compile(r"(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|OTEL_.*", re.IGNORECASE)


def check_settings(caller: Mapping[str, str]) -> None:
    """Raises StackError for the first invalid setting in the caller's environment."""
    requested_ports(caller)
    for variable in _provider_addresses():
        if (address := caller.get(variable)) and not _is_address(address):
            raise StackError(
                f"Invalid URL in {variable}: {address!r}.",
                "Use a URL such as http://127.0.0.1:11434/v1, or unset the variable.",
            )
    given = {name for name in caller if name.startswith("AES_") and _reaches_services(name)}
    if not given:
        return
    # Importing the services' settings takes time.
    from libs.service_defaults import invalid_settings

    for service in SERVICES:
        for variable, message in invalid_settings(settings_of(service.name)).items():
            if variable in given:
                raise StackError(
                    f"{variable} is invalid: {message}.", "Fix the value, or unset the variable to use its default."
                )


def settings_of(service: str) -> "type[ServiceSettings]":
    from libs.service_defaults import ServiceSettings

    module = import_module(f"services.{service}.settings")
    (settings,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ServiceSettings) and value.__module__ == module.__name__
    )
    return settings


def changed_settings(state: StackState, caller: Mapping[str, str]) -> list[str]:
    """Returns the services' variables that differ between the caller's environment and the running stack."""
    started = _environment_of(state.supervisor.pid) if state.supervisor else {}
    running = dict(started)
    # Replicas have their own ports, so a port variable applies only to each service's first process.
    for part in reversed(state.parts.values()):
        running |= _environment_of(part.pid) if part.pid else {}
    running |= {f"AES_{name.upper()}_PORT": str(part.port) for name, part in state.parts.items()}
    if not started:
        return []
    given = {name for name, value in caller.items() if value != running.get(name, "")}
    removed = {name for name, value in started.items() if value and name not in caller}
    return sorted(name for name in given | removed if _reaches_services(name))


def _reaches_services(name: str) -> bool:
    if name.startswith("AES_"):
        return name not in _NOT_OF_SERVICES and not _OF_THE_STACK.fullmatch(name)
    return name in _provider_variables() or _NETWORK.fullmatch(name) is not None


def _environment_of(pid: int) -> dict[str, str]:
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}


def _provider_addresses() -> list[str]:
    from services.runtime.adapters.models.known_providers import COMPATIBLE

    return [provider.address_variable for provider in COMPATIBLE]


def _provider_variables() -> set[str]:
    from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS

    keys = {provider.key_variable for provider in COMPATIBLE}
    return {*keys, *_provider_addresses(), *(variable for provider in OTHERS for variable in provider.variables)}


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)

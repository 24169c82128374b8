"""The command line of a service: ``python -m services.<name> api|worker|all|migrate``."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import uvloop
from pydantic import ValidationError

from libs.persistence import IncompatibleSchema, migrate
from libs.service_defaults._logging import configure_logging
from libs.service_defaults.service import Service
from libs.service_defaults.settings import ServiceSettings, invalid_settings
from libs.tracing import start as start_tracing
from libs.tracing import stop as stop_tracing

S = TypeVar("S", bound=ServiceSettings)
# Python's garbage collection thresholds for the three generations.
_COLLECTED_AFTER: Final = (2_000, 5, 200)


def serve(
    name: str,
    settings_type: type[S],
    build: Callable[[S], Service],
    *,
    own_roles: Mapping[str, Callable[[S], Service]] | None = None,
) -> None:
    """Runs a service in the role given as an argument. If settings are invalid, lists them and exits with status 2.

    ``own_roles`` contains additional roles of this service, each with a function that builds the service for the role.
    """
    builders = own_roles or {}
    parser = argparse.ArgumentParser(prog=f"python -m services.{name}")
    parser.add_argument("role", choices=["all", "api", "worker", "migrate", *builders], nargs="?", default="all")
    role = parser.parse_args().role
    settings = _read(settings_type)
    configure_logging(service=name, level=settings.log_level, form=settings.log_format)

    async def run() -> None:
        service = builders.get(role, build)(settings)
        if role == "migrate":
            await asyncio.to_thread(migrate, settings.database_url.get_secret_value(), service.migrations)
        else:
            _tune_garbage_collection()
            await service.run(None if role == "all" else frozenset({role}))

    if role != "migrate":
        start_tracing(name)
    try:
        uvloop.run(run())
    except IncompatibleSchema as problem:
        raise SystemExit(str(problem)) from None
    finally:
        stop_tracing()


def _tune_garbage_collection() -> None:
    """Excludes imported objects from garbage collection, and makes collections shorter.

    A collection that includes the 160,000 imported objects pauses the process for a tenth of a second. With Python's
    default threshold, a collection paused a busy gateway for 160 ms; with a fifth of the threshold, for 25 ms.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_COLLECTED_AFTER)


def _read(settings_type: type[S]) -> S:
    try:
        return settings_type()
    except ValidationError:
        for variable, message in invalid_settings(settings_type).items():
            print(f"{variable}: {message}" if variable else message, file=sys.stderr)
        raise SystemExit(2) from None

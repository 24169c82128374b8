"""Finds or starts the service that the demo talks to."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cli.bus_address import BusAddress, embedded_bus, named_kafka
from cli.connection import Connection, connect
from cli.demo.screen import Screen
from cli.progress import Progress
from deploy.local.control import bring_up, development_key
from deploy.local.home import Home
from deploy.local.restarting import parts_of, restart
from deploy.local.state import StackState


@dataclass(frozen=True)
class Running:
    """A running service; `bus` is None for a service elsewhere whose broker was not named."""

    connection: Connection
    bus: BusAddress | None
    key_file: Path | None
    """File with the key; None when the caller gave the key."""
    kafka_password_file: Path | None = None
    home: Home | None = None
    """The embedded stack; None for a service elsewhere: its processes are not for the demo to restart."""


def is_running() -> bool:
    state = StackState.read(Home.from_environment().state_file)
    return state.is_supervised() and state.phase == "running"


def downloads() -> Path:
    """Directory for the demo's downloads."""
    return Home.from_environment().root / "demo"


def restarter(stack: Running) -> Callable[[], None] | None:
    """Restarts the runtime of the embedded stack; None for a service elsewhere."""
    home = stack.home
    if home is None:
        return None

    def restart_runtime() -> None:
        for part in parts_of(home, ["runtime"]):
            restart(home, part)

    return restart_runtime


def ensure(screen: Screen, base_url: str | None, api_key: str | None) -> Running:
    """Takes the named service, else the embedded stack, which it starts if needed."""
    prefix = os.environ.get("AES_TOPIC_PREFIX", "")
    if base_url is not None:
        connection = connect(base_url, api_key)
        _welcome(screen, connection)
        bus = BusAddress(named_kafka(), prefix) if os.environ.get("AES_KAFKA_BOOTSTRAP_SERVERS") else None
        return Running(connection, bus, None)

    home = Home.from_environment()
    if is_running():
        state, _ = bring_up(home, lambda _: None)
    else:
        with Progress() as progress:
            state, _ = bring_up(home, progress.show)
    own = api_key is None
    connection = Connection(state.base_url, api_key or development_key(home))
    _welcome(screen, connection)
    bus = embedded_bus(home, state.parts["kafka"].port or 0, prefix)
    return Running(connection, bus, home.development_key_file if own else None, home.kafka_password_file, home)


def _welcome(screen: Screen, connection: Connection) -> None:
    screen.title(
        "Agent Execution Service",
        f"Gateway {connection.base_url}. What follows are real calls of its API.",
    )

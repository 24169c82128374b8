"""Installations to back up or to restore into."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cli.doctor.installation import Installation, find_installation, names_addresses
from deploy.local.errors import StackError
from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.stack import build_stack
from deploy.local.state import StackState

# A consumer comes before its producer: events published in between are sent again after a restore.
ORDER = ("artifacts", "ingestion", "runtime", "registry", "gateway")


def running() -> Installation:
    """Takes the installation of the AES_… variables, else the running embedded stack. Raises StackError."""
    found = _ordered(find_installation())
    if found.home is not None and not StackState.read(found.home.state_file).is_supervised():
        raise StackError("The embedded stack does not run.", "Start it with: ./aes up")
    return found


def check_stopped() -> None:
    """Raises StackError when the restore would go into a running embedded stack."""
    home = Home.from_environment()
    if not names_addresses(os.environ) and StackState.read(home.state_file).is_supervised():
        raise StackError("The embedded stack runs.", "Restore into a new one: set AES_HOME to a new directory.")


@contextmanager
def empty() -> Iterator[Installation]:
    """Takes the installation of the variables, else runs PostgreSQL of a new embedded stack. Raises StackError."""
    if names_addresses(os.environ):
        yield _ordered(find_installation())
        return
    check_stopped()
    home = Home.from_environment()
    home.create()
    postgres = asyncio.run(start(build_stack(home, os.environ).postgres, lambda _: None))
    try:
        yield _ordered(find_installation())
    finally:
        postgres.stop()


def _ordered(found: Installation) -> Installation:
    databases = {service: found.databases[service] for service in ORDER if service in found.databases}
    if not databases:
        raise StackError("No database is named.", "Set AES_<SERVICE>_DATABASE_URL of every service.")
    return replace(found, databases=databases)

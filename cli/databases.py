"""Opens the services' databases for operators' commands, and explains their errors."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import psycopg
import typer

from cli.installation import Installation, find_installation
from cli.terminal import failures_explained
from deploy.local.errors import StackError
from libs.contracts.errors import ServiceError, StoreUnavailable

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class ServiceDatabase(Generic[A]):
    """A service's database. ``open`` connects to its URL."""

    service: str
    open: Callable[[str], AbstractAsyncContextManager[A]]

    def run(self, work: Callable[[A], Awaitable[T]], database_url: str | None, as_json: bool) -> T:
        """Runs ``work`` on the database. If that fails, prints the error and exits."""
        with failures_explained(as_json):
            url = database_url or url_of(self.service, find_installation())
            with database_errors_explained(self.service, url):
                return asyncio.run(self._run(work, url))

    async def _run(self, work: Callable[[A], Awaitable[T]], url: str) -> T:
        async with self.open(url) as administration:
            return await work(administration)


def url_option(service: str) -> Any:
    help_text = f"{service.capitalize()} database URL."
    return typer.Option(
        "--database-url", envvar=_variable(service), help=help_text, show_default="the embedded stack's"
    )


def url_of(service: str, installation: Installation) -> str:
    """Returns the URL of a service's database. Raises StackError if the installation has none."""
    url = installation.databases.get(service)
    if url is None:
        raise StackError(f"The {service}'s database isn't configured.", f"Set {_variable(service)}.")
    return url


@contextmanager
def database_errors_explained(service: str, url: str) -> Iterator[None]:
    """Converts errors of a service's database to StackError."""
    try:
        yield
    except StoreUnavailable:
        raise _unreachable(service, url) from None
    except ServiceError as error:
        raise StackError(error.message) from None
    except psycopg.errors.UndefinedTable:
        raise StackError(
            f"This isn't the {service}'s database, or it isn't migrated.", f"Run: python -m services.{service} migrate"
        ) from None
    except psycopg.Error as problem:
        # An error without a code comes from the driver and may contain the address with its password.
        if problem.sqlstate is None or isinstance(problem, psycopg.OperationalError):
            raise _unreachable(service, url) from None
        raise StackError(f"The {service}'s database returned an error: {problem}") from problem


def _unreachable(service: str, url: str) -> StackError:
    return StackError(
        f"Couldn't reach the {service}'s database: {connection_problem(url)}.",
        f"Start the stack with ./aes up, or set {_variable(service)}.",
    )


def connection_problem(url: str) -> str:
    """Returns why connecting fails, without the address, which may contain a password."""
    try:
        with psycopg.connect(url, connect_timeout=5):
            return "it didn't respond in time"
    except psycopg.OperationalError as problem:
        return str(problem).strip().splitlines()[0]
    except psycopg.Error:
        return "its address isn't a PostgreSQL URL"


def _variable(service: str) -> str:
    return f"AES_{service.upper()}_DATABASE_URL"

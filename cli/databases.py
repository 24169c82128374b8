"""Databases of services as operators' commands use them: which one, and what its errors mean."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import psycopg

from cli.installation import Installation, find_installation
from cli.terminal import failures_explained
from deploy.local.errors import StackError
from libs.contracts.errors import ServiceError, StoreUnavailable

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class ServiceDatabase(Generic[A]):
    """``open`` takes the database's URL."""

    service: str
    open: Callable[[str], AbstractAsyncContextManager[A]]

    def run(self, work: Callable[[A], Awaitable[T]], database_url: str | None, as_json: bool) -> T:
        """Ends the command with a readable message when the work fails."""
        with failures_explained(as_json):
            url = database_url or url_of(self.service, find_installation())
            with database_errors_explained(self.service, url):
                return asyncio.run(self._run(work, url))

    async def _run(self, work: Callable[[A], Awaitable[T]], url: str) -> T:
        async with self.open(url) as administration:
            return await work(administration)


def url_of(service: str, installation: Installation) -> str:
    """Raises StackError when the installation names none."""
    url = installation.databases.get(service)
    if url is None:
        raise StackError(f"The database of the {service} is not named.", f"Set {_variable(service)}.")
    return url


@contextmanager
def database_errors_explained(service: str, url: str) -> Iterator[None]:
    """Raises StackError in place of what the work in a service's database raises."""
    try:
        yield
    except StoreUnavailable:
        raise _unreachable(service, url) from None
    except ServiceError as error:
        raise StackError(error.message) from None
    except psycopg.errors.UndefinedTable:
        raise StackError(
            f"The database is not the {service}'s, or not migrated.", f"Run: python -m services.{service} migrate"
        ) from None
    except psycopg.Error as problem:
        # Without a code it is the driver's own, which may repeat the address and the password in it.
        if problem.sqlstate is None or isinstance(problem, psycopg.OperationalError):
            raise _unreachable(service, url) from None
        raise StackError(f"The {service}'s database: {problem}") from problem


def _unreachable(service: str, url: str) -> StackError:
    return StackError(
        f"The {service}'s database cannot be reached: {connection_problem(url)}.",
        f"Start the stack with: ./aes up, or name a database with {_variable(service)}.",
    )


def connection_problem(url: str) -> str:
    """Why no connection can be made, without the address, which has a password in it."""
    try:
        with psycopg.connect(url, connect_timeout=5):
            return "it did not answer in time"
    except psycopg.OperationalError as problem:
        return str(problem).strip().splitlines()[0]
    except psycopg.Error:
        return "its address is not a PostgreSQL URL"


def _variable(service: str) -> str:
    return f"AES_{service.upper()}_DATABASE_URL"

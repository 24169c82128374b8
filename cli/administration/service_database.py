"""Runs an operator's command in the database of a service and explains its failures."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

import psycopg

from cli.terminal import failures_explained
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.stack import postgres_of
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
            return asyncio.run(self._run(work, database_url or self._url_of_stack()))

    async def _run(self, work: Callable[[A], Awaitable[T]], database_url: str) -> T:
        try:
            async with self.open(database_url) as administration:
                return await work(administration)
        except ServiceError as error:
            raise StackError(error.message) from None
        except psycopg.errors.UndefinedTable:
            raise StackError(
                f"The database is not the {self.service}'s, or not migrated.",
                f"Run: python -m services.{self.service} migrate",
            ) from None
        except (psycopg.OperationalError, StoreUnavailable):
            raise StackError(
                f"The {self.service}'s database cannot be reached: {await _connection_problem(database_url)}.",
                f"Start the stack with: ./aes up, or name a database with --database-url or {self._variable}.",
            ) from None

    @property
    def _variable(self) -> str:
        return f"AES_{self.service.upper()}_DATABASE_URL"

    def _url_of_stack(self) -> str:
        home = Home.from_environment()
        if not home.credentials_file.exists():
            raise StackError(
                "There is no embedded stack and no database was named.",
                f"Start the stack with: ./aes up, or set {self._variable}.",
            )
        return postgres_of(home, Credentials.load_or_create(home.credentials_file)).url(self.service)


async def _connection_problem(database_url: str) -> str:
    """Returns why no connection can be made, without the address, which has a password in it."""
    try:
        async with await psycopg.AsyncConnection.connect(database_url, connect_timeout=5):
            return "it did not answer in time"
    except psycopg.OperationalError as problem:
        return str(problem).strip().splitlines()[0]
    except psycopg.Error:
        return "its address is not a PostgreSQL URL"

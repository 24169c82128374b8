"""Runs an operator's command in the gateway's database and explains its failures."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, TypeVar

import psycopg
import typer
from psycopg_pool import PoolTimeout

from cli.terminal import failures_explained
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.stack import postgres_of
from libs.contracts.errors import ServiceError
from libs.contracts.timestamps import format_time
from services.gateway.administration import Administration, administration

T = TypeVar("T")
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="AES_GATEWAY_DATABASE_URL",
        help="Database of the gateway; else that of the embedded stack.",
    ),
]
Company = Annotated[str, typer.Option("--company", help="Name or id of the company.")]


def run(work: Callable[[Administration], Awaitable[T]], database_url: str | None, as_json: bool) -> T:
    """Ends the command with a readable message when the work fails."""
    with failures_explained(as_json):
        return asyncio.run(_run(work, database_url or _url_of_stack()))


async def _run(work: Callable[[Administration], Awaitable[T]], database_url: str) -> T:
    try:
        async with administration(database_url) as gateway:
            return await work(gateway)
    except ServiceError as error:
        raise StackError(error.message) from None
    except psycopg.errors.UndefinedTable:
        raise StackError(
            "The database is not the gateway's, or not migrated.", "Run: python -m services.gateway migrate"
        ) from None
    except (psycopg.OperationalError, PoolTimeout):
        raise StackError(
            f"The gateway's database cannot be reached: {await _connection_problem(database_url)}.",
            "Start the stack with: ./aes up, or name a database with --database-url or AES_GATEWAY_DATABASE_URL.",
        ) from None


async def _connection_problem(database_url: str) -> str:
    """Returns why no connection can be made, without the address, which has a password in it."""
    try:
        async with await psycopg.AsyncConnection.connect(database_url, connect_timeout=5):
            return "it did not answer in time"
    except psycopg.OperationalError as problem:
        return str(problem).strip().splitlines()[0]
    except psycopg.Error:
        return "its address is not a PostgreSQL URL"


def _url_of_stack() -> str:
    home = Home.from_environment()
    if not home.credentials_file.exists():
        raise StackError(
            "There is no embedded stack and no database was named.",
            "Start the stack with: ./aes up, or set AES_GATEWAY_DATABASE_URL.",
        )
    return postgres_of(home, Credentials.load_or_create(home.credentials_file)).url("gateway")


def as_json(entity: Any) -> dict[str, Any]:
    """Returns the fields of a company, user or key."""

    def value(field: object) -> object:
        if isinstance(field, datetime):
            return format_time(field)
        return sorted(field) if isinstance(field, frozenset) else field

    return {name: value(field) for name, field in asdict(entity).items()}

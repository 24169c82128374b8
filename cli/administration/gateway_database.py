"""Runs an operator's command in the gateway's database."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer

from cli.administration.service_database import ServiceDatabase
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
_GATEWAY = ServiceDatabase("gateway", administration)


def run(work: Callable[[Administration], Awaitable[T]], database_url: str | None, as_json: bool) -> T:
    """Ends the command with a readable message when the work fails."""
    return _GATEWAY.run(work, database_url, as_json)


def as_json(entity: Any) -> dict[str, Any]:
    """Returns the fields of a company, user or key."""

    def value(field: object) -> object:
        if isinstance(field, datetime):
            return format_time(field)
        return sorted(field) if isinstance(field, frozenset) else field

    return {name: value(field) for name, field in asdict(entity).items()}

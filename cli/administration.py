"""The `aes companies` and `aes users` commands."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from cli.commands import Commands
from cli.databases import ServiceDatabase, url_option
from cli.terminal import Json, show_table
from libs.contracts.timestamps import format_time
from services.gateway.administration import administration

DatabaseUrl = Annotated[str | None, url_option("gateway")]
Company = Annotated[str, typer.Option("--company", help="Company name or ID.")]
companies = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
users = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
run = ServiceDatabase("gateway", administration).run


def as_json(entity: Any) -> dict[str, Any]:
    """Returns the fields of a company, user or key as JSON values."""

    def value(field: object) -> object:
        if isinstance(field, datetime):
            return format_time(field)
        return sorted(field) if isinstance(field, frozenset) else field

    return {name: value(field) for name, field in asdict(entity).items()}


@companies.command("create")
def create_company(
    name: Annotated[str, typer.Argument(help="Unique company name.")],
    rate_limit: Annotated[
        int, typer.Option("--rate-limit", min=0, help="Requests per minute for each key; 0 for no limit.")
    ] = 600,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Create a company."""
    company = run(
        lambda gateway: gateway.create_company(name, rate_limit=rate_limit or None), database_url, json_output
    )
    show_table(json_output, as_json(company), ("id", "name"), [(company.id, company.name)])


@companies.command("list")
def list_companies(database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List the companies."""
    found = run(lambda gateway: gateway.companies(), database_url, json_output)
    rows = [(company.id, company.name, company.rate_limit or "no limit") for company in found]
    document = {"companies": [as_json(company) for company in found]}
    show_table(json_output, document, ("id", "name", "requests per minute"), rows)


@users.command("create")
def create_user(
    name: Annotated[str, typer.Argument(help="Name, unique within the company.")],
    company: Company,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Create a user."""
    user = run(lambda gateway: gateway.create_user(company, name), database_url, json_output)
    show_table(json_output, as_json(user), ("id", "name"), [(user.id, user.name)])


@users.command("list")
def list_users(company: Company, database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List a company's users."""
    found = run(lambda gateway: gateway.users(company), database_url, json_output)
    document = {"users": [as_json(user) for user in found]}
    show_table(json_output, document, ("id", "name"), [(user.id, user.name) for user in found])

"""`aes users`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.administration.office import Company, DatabaseUrl, run, show
from cli.terminal import Json, print_json

if TYPE_CHECKING:
    from services.gateway.domain.accounts import User

app = typer.Typer(help="Manage the users of a company.", no_args_is_help=True, add_completion=False)


@app.callback()
def users() -> None:
    """Manage the users of a company."""


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="A name that nobody else in the company has.")],
    company: Company,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Create a user."""
    user = run(lambda office: office.create_user(company, name), database_url, json_output)
    if json_output:
        print_json(_as_json(user))
    else:
        show(("id", "name"), [(user.id, user.name)])


@app.command("list")
def list_all(company: Company, database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List the users of a company."""
    found = run(lambda office: office.users(company), database_url, json_output)
    if json_output:
        print_json({"users": [_as_json(user) for user in found]})
    else:
        show(("id", "name"), [(user.id, user.name) for user in found])


def _as_json(user: "User") -> dict[str, Any]:
    from libs.contracts.timestamps import format_time

    return {
        "id": user.id,
        "company_id": user.company_id,
        "name": user.name,
        "created_at": format_time(user.created_at),
    }

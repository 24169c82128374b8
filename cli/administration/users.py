"""`aes users`."""

from typing import Annotated

import typer

from cli.administration.gateway_database import Company, DatabaseUrl, as_json, run
from cli.terminal import Json, print_json, print_table

app = typer.Typer(help="Manage the users of a company.", no_args_is_help=True, add_completion=False)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="A name that nobody else in the company has.")],
    company: Company,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Create a user."""
    user = run(lambda gateway: gateway.create_user(company, name), database_url, json_output)
    if json_output:
        print_json(as_json(user))
    else:
        print_table(("id", "name"), [(user.id, user.name)])


@app.command("list")
def list_all(company: Company, database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List the users of a company."""
    found = run(lambda gateway: gateway.users(company), database_url, json_output)
    if json_output:
        print_json({"users": [as_json(user) for user in found]})
    else:
        print_table(("id", "name"), [(user.id, user.name) for user in found])

"""`aes companies`."""

from typing import Annotated

import typer

from cli.administration.gateway_database import DatabaseUrl, as_json, run
from cli.terminal import Json, print_json, print_table

app = typer.Typer(help="Manage the companies that use the service.", no_args_is_help=True, add_completion=False)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="A name that no other company has.")],
    rate_limit: Annotated[
        int, typer.Option("--rate-limit", min=0, help="Requests a minute of each key; 0 for no limit.")
    ] = 600,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Create a company."""
    company = run(
        lambda gateway: gateway.create_company(name, rate_limit=rate_limit or None), database_url, json_output
    )
    if json_output:
        print_json(as_json(company))
    else:
        print_table(("id", "name"), [(company.id, company.name)])


@app.command("list")
def list_all(database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List the companies."""
    found = run(lambda gateway: gateway.companies(), database_url, json_output)
    if json_output:
        print_json({"companies": [as_json(company) for company in found]})
    else:
        rows = [(company.id, company.name, company.rate_limit or "no limit") for company in found]
        print_table(("id", "name", "requests a minute"), rows)

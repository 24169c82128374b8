"""`aes prices`."""

from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from cli.databases import ServiceDatabase
from cli.terminal import Json, note, print_json, print_table
from libs.contracts.decimals import decimal_text
from libs.contracts.timestamps import format_time
from services.runtime.administration import administration

app = typer.Typer(no_args_is_help=True, add_completion=False)
_RUNTIME = ServiceDatabase("runtime", administration)
Model = Annotated[str, typer.Argument(help="Name of a model, or a prefix that ends in *, such as 'openai:*'.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="AES_RUNTIME_DATABASE_URL",
        help="Database of the runtime; else that of the embedded stack.",
    ),
]


@app.command("list")
def list_all(database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List the prices of a million tokens."""
    found = _RUNTIME.run(lambda runtime: runtime.prices(), database_url, json_output)
    if json_output:
        prices = [
            {
                "model": each.model,
                "input": decimal_text(each.input_price),
                "output": decimal_text(each.output_price),
                "updated_at": format_time(each.updated_at),
            }
            for each in found
        ]
        print_json({"prices": prices})
        return
    rows = [(each.model, decimal_text(each.input_price), decimal_text(each.output_price)) for each in found]
    print_table(("model", "input", "output"), rows)


@app.command("set")
def set_price(
    model: Model,
    input_price: Annotated[str, typer.Option("--input", help="Price of a million input tokens.")],
    output_price: Annotated[str, typer.Option("--output", help="Price of a million output tokens.")],
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Set the prices of a model. They hold within ten seconds, for turns that end from then on."""
    paid, produced = _decimal(input_price), _decimal(output_price)
    _RUNTIME.run(lambda runtime: runtime.set_price(model, paid, produced), database_url, json_output)
    if json_output:
        print_json({"model": model, "input": decimal_text(paid), "output": decimal_text(produced)})
    else:
        note(f"A million tokens of {model} cost {decimal_text(paid)} in and {decimal_text(produced)} out.")


@app.command()
def remove(model: Model, database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """Remove the prices of a model: its turns have no cost from then on."""
    _RUNTIME.run(lambda runtime: runtime.remove_price(model), database_url, json_output)
    if json_output:
        print_json({"model": model, "removed": True})
    else:
        note(f"{model} has no price any more.")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter(f"'{text}' is no decimal such as 2.50") from None

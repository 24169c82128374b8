"""The `aes prices` commands."""

from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from cli.commands import Commands
from cli.databases import ServiceDatabase, url_option
from cli.terminal import Json, show, show_table
from libs.contracts.decimals import decimal_text
from libs.contracts.timestamps import format_time
from services.runtime.administration import administration

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
_RUNTIME = ServiceDatabase("runtime", administration)
Model = Annotated[str, typer.Argument(help="Model name, or a prefix ending in *, such as 'openai:*'.")]
DatabaseUrl = Annotated[str | None, url_option("runtime")]


@app.command("list")
def list_all(database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List prices per million tokens."""
    found = _RUNTIME.run(lambda runtime: runtime.prices(), database_url, json_output)
    columns = ("model", "input", "output")
    rows = [(each.model, decimal_text(each.input_price), decimal_text(each.output_price)) for each in found]
    prices = [
        {**dict(zip(columns, row, strict=True)), "updated_at": format_time(each.updated_at)}
        for row, each in zip(rows, found, strict=True)
    ]
    show_table(json_output, {"prices": prices}, columns, rows)


@app.command("set")
def set_price(
    model: Model,
    input_price: Annotated[str, typer.Option("--input", help="Price per million input tokens.")],
    output_price: Annotated[str, typer.Option("--output", help="Price per million output tokens.")],
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Set a model's prices. The new prices apply within ten seconds, to all turns that end after that."""
    paid, produced = _decimal(input_price), _decimal(output_price)
    _RUNTIME.run(lambda runtime: runtime.set_price(model, paid, produced), database_url, json_output)
    price = {"model": model, "input": decimal_text(paid), "output": decimal_text(produced)}
    show(
        json_output, price, f"A million tokens of {model} cost {price['input']} (input) and {price['output']} (output)."
    )


@app.command()
def remove(model: Model, database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """Remove a model's prices. The cost of later turns with this model is unknown."""
    _RUNTIME.run(lambda runtime: runtime.remove_price(model), database_url, json_output)
    show(json_output, {"model": model, "removed": True}, f"Removed the prices of {model}.")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter(f"Invalid price '{text}'. Use a decimal such as 2.50.") from None

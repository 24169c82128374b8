"""Checks turn options beyond their schema, including who may set them."""

from collections.abc import Iterator, Sequence

from libs.contracts.errors import ErrorDetail, PermissionDenied, ValidationFailed, dotted_path
from libs.contracts.resources.turns import TurnOptions
from libs.json_schema import SchemaInvalid, compile_schema
from services.gateway.domain.accounts import Principal


def check_options(options: TurnOptions, caller: Principal) -> None:
    """Raises ``ValidationFailed`` for an invalid JSON Schema, or if two client tools have the same name.

    Raises ``PermissionDenied`` for public keys, because the agent's owner pays for their turns.
    """
    if caller.public is not None:
        raise PermissionDenied("A public key can't send options. Omit them to use the agent's settings.")
    if findings := list(_findings(options)):
        raise ValidationFailed(
            f"Invalid body: {dotted_path(findings[0].loc)}: {findings[0].message}.", details=findings
        )


def _findings(options: TurnOptions) -> Iterator[ErrorDetail]:
    if options.output_schema is not None:
        yield from _schema_findings(options.output_schema, ["options", "output_schema"])
    names: set[str] = set()
    for number, tool in enumerate(options.client_tools or ()):
        loc: list[str | int] = ["options", "client_tools", number]
        yield from _schema_findings(tool.parameters, [*loc, "parameters"])
        if tool.name in names:
            message = f"two tools have the name {tool.name!r}"
            yield ErrorDetail(loc=[*loc, "name"], type="duplicate", message=message, hint="rename one of them")
        names.add(tool.name)


def _schema_findings(schema: dict[str, object], loc: Sequence[str | int]) -> Iterator[ErrorDetail]:
    try:
        compile_schema(schema)
    except SchemaInvalid as problem:
        hint = "use a JSON Schema from draft 4 to draft 2020-12"
        yield ErrorDetail(loc=[*loc, *problem.path], type="json_schema", message=str(problem), hint=hint)

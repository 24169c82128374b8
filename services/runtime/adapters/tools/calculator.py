"""The `calculator` tool."""

from services.runtime.adapters.tools.expression import ExpressionError, evaluate
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema


class Calculator:
    definition = ToolDefinition(
        name="calculator",
        description=(
            "Computes an arithmetic expression exactly, with decimals. Supports + - * / // % ^ ! brackets, "
            "percentages (20%), pi, e, sqrt, abs, exp, ln, log(x, base), floor, ceil, round(x, digits), min, "
            "max, sin, cos, tan (radians). Doesn't accept thousands separators."
        ),
        parameters=object_schema(
            ["expression"],
            expression={"type": "string", "minLength": 1, "maxLength": 1000, "description": "e.g. (2 + 3) * 4"},
        ),
        safe_to_repeat=True,
        timeout_seconds=5.0,
    )

    async def call(self, arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        expression: str = arguments["expression"]
        try:
            return ToolOutput(f"{expression.strip()} = {evaluate(expression)}")
        except ExpressionError as error:
            raise ToolFailed(f"can't compute {expression.strip()[:200]!r}: {error}") from error

"""The `calculator` tool, which evaluates decimal arithmetic with limits that keep evaluation fast."""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DecimalException, DivisionByZero, InvalidOperation, Overflow, localcontext
from typing import Final, TypeVar

from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema

T = TypeVar("T")
_LONGEST: Final = 1000
_DEEPEST: Final = 50
_LARGEST_FACTORIAL: Final = 1000
# With 120 digits, every integer that people would type is exact. The exponent limit immediately rejects towers such as
# 9^9^9.
_CONTEXT: Final = Context(prec=120, Emax=9_999, Emin=-9_999, traps=[InvalidOperation, DivisionByZero, Overflow])
_SHOWN_DIGITS: Final = 28
_FLOAT_DIGITS: Final = 15
_PI: Final = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
)
_TYPED_SIGNS: Final = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u2212": "-"})
_SYMBOL: Final = re.compile(r"\s*((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|\*\*|//|[-+*/%^(),!])")
# How tightly a sign binds: more than `*` and less than `^`.
_SIGN: Final = 3


class ExpressionError(ValueError):
    """The expression is invalid, or its result is undefined. The message explains why."""


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


def evaluate(expression: str) -> str:
    """Returns the expression's value as text. Raises ExpressionError.

    Integers are exact up to 120 digits. Other values have 28 significant digits, and sin, cos and tan have 15.
    """
    if len(expression) > _LONGEST:
        raise ExpressionError(f"the expression is longer than {_LONGEST} characters")
    symbols = _symbols(expression.translate(_TYPED_SIGNS).rstrip())
    with localcontext(_CONTEXT):
        try:
            return _shown(_Evaluation(symbols).result())
        except DivisionByZero:
            raise ExpressionError("division by zero") from None
        except Overflow:
            raise ExpressionError("the result is too large") from None
        except DecimalException:
            raise ExpressionError("the result is undefined, as for the square root of a negative number") from None


def _symbols(text: str) -> list[str]:
    symbols: list[str] = []
    position = 0
    while position < len(text):
        match = _SYMBOL.match(text, position)
        if match is None:
            raise ExpressionError(f"unexpected {text[position:].strip()[:1]!r} at position {position + 1}")
        symbols.append(match[1])
        position = match.end()
    if not symbols:
        raise ExpressionError("the expression is empty")
    return symbols


class _Evaluation:
    """Evaluates symbols from left to right, by precedence climbing."""

    def __init__(self, symbols: list[str]) -> None:
        self._symbols = symbols
        self._index = 0

    def result(self) -> Decimal:
        value = self._value(0, 0)
        if self._next:
            raise self._unexpected()
        return value

    @property
    def _next(self) -> str:
        return self._symbols[self._index] if self._index < len(self._symbols) else ""

    def _take(self) -> str:
        symbol = self._next
        self._index += 1
        return symbol

    def _unexpected(self) -> ExpressionError:
        return ExpressionError(f"unexpected {self._next!r}" if self._next else "the expression is incomplete")

    def _value(self, loosest: int, depth: int) -> Decimal:
        """Evaluates an operand and the operations after it that bind at least as tightly as `loosest`."""
        value = self._operand(depth)
        while (operation := _OPERATIONS.get(self._next)) is not None and operation[0] >= loosest:
            binding, function = operation
            is_power = self._take() in ("^", "**")  # which group from the right: 2^3^2 is 2^9
            value = function(value, self._value(binding if is_power else binding + 1, depth + 1))
        return value

    def _operand(self, depth: int) -> Decimal:
        if depth > _DEEPEST:
            raise ExpressionError(f"the expression is nested more than {_DEEPEST} levels deep")
        if self._next in ("+", "-"):
            sign = self._take()
            value = self._value(_SIGN, depth + 1)
            return -value if sign == "-" else value
        if self._next == "(":
            self._take()
            value = self._value(0, depth + 1)
            self._close()
        elif self._next[:1].isdigit() or self._next[:1] == ".":
            value = +Decimal(self._take())
        elif self._next.isidentifier() and self._next not in _OPERATIONS:
            value = self._named_value(depth)
        else:
            raise self._unexpected()
        while self._next == "!" or self._is_percentage():
            value = _factorial(value) if self._take() == "!" else value / 100
        return value

    def _named_value(self, depth: int) -> Decimal:
        name = self._take()
        if self._next != "(":
            return +_named(name, _CONSTANTS)()
        function, fewest, most = _named(name, _FUNCTIONS)
        self._take()
        arguments = [] if self._next == ")" else [self._value(0, depth + 1)]
        while self._next == ",":
            self._take()
            arguments.append(self._value(0, depth + 1))
        self._close()
        if not fewest <= len(arguments) <= most:
            raise ExpressionError(
                f"wrong number of values for {name.lower()}(): {len(arguments)} (minimum {fewest}, maximum {most})"
            )
        return function(*arguments)

    def _close(self) -> None:
        if not self._next:
            raise ExpressionError("expected ')' at the end")
        if self._next != ")":
            raise self._unexpected()
        self._take()

    def _is_percentage(self) -> bool:
        """Returns whether the next symbol is a percent sign, as in `20%`, `20% * 5` and `20% - 1`.

        Before a value, the sign means the remainder.
        """
        following = self._symbols[self._index + 1 : self._index + 2] or [""]
        return self._next == "%" and re.match(r"(?!mod$)[\w.(]", following[0]) is None


def _named(symbol: str, known: Mapping[str, T]) -> T:
    try:
        return known[symbol.lower()]
    except KeyError:
        raise ExpressionError(
            f"unknown name {symbol[:40]!r}; use one of these functions: {', '.join(_FUNCTIONS)}"
        ) from None


def _factorial(value: Decimal) -> Decimal:
    if value != value.to_integral_value() or not 0 <= value <= _LARGEST_FACTORIAL:
        raise ExpressionError(f"a factorial requires an integer from 0 to {_LARGEST_FACTORIAL}")
    return +Decimal(math.factorial(int(value)))


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if base == 0 and exponent < 0:
        raise ExpressionError("division by zero")
    return Decimal(1) if base == 0 == exponent else base**exponent


def _modulo(left: Decimal, right: Decimal) -> Decimal:
    """Returns the remainder, which has the sign of the divisor."""
    if right == 0:
        raise ExpressionError("division by zero")
    remainder = left % right
    return remainder + right if remainder and (remainder < 0) != (right < 0) else remainder


def _round(value: Decimal, digits: Decimal = Decimal(0)) -> Decimal:
    if digits != digits.to_integral_value() or not -100 <= digits <= 100:
        raise ExpressionError("the number of digits in round() must be an integer from -100 to 100")
    return value.quantize(Decimal(1).scaleb(-int(digits)), rounding="ROUND_HALF_UP")


def _wave(function: Callable[[float], float], angle: Decimal) -> Decimal:
    return Decimal(str(round(function(float(angle % (2 * _PI))), _FLOAT_DIGITS)))


_CONSTANTS: Final = {"pi": lambda: _PI, "e": lambda: Decimal(1).exp()}
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Decimal], int, int]]] = {
    "sqrt": (lambda x: x.sqrt(), 1, 1),
    "abs": (lambda x: abs(x), 1, 1),
    "exp": (lambda x: x.exp(), 1, 1),
    "ln": (lambda x: x.ln(), 1, 1),
    "log": (lambda x, base=Decimal(10): x.log10() if base == 10 else x.ln() / base.ln(), 1, 2),
    "log10": (lambda x: x.log10(), 1, 1),
    "log2": (lambda x: x.ln() / Decimal(2).ln(), 1, 1),
    "floor": (lambda x: x.to_integral_value(rounding="ROUND_FLOOR"), 1, 1),
    "ceil": (lambda x: x.to_integral_value(rounding="ROUND_CEILING"), 1, 1),
    "round": (_round, 1, 2),
    "min": (lambda *values: min(values), 1, 50),
    "max": (lambda *values: max(values), 1, 50),
    "factorial": (_factorial, 1, 1),
    "sin": (lambda x: _wave(math.sin, x), 1, 1),
    "cos": (lambda x: _wave(math.cos, x), 1, 1),
    "tan": (lambda x: _wave(math.sin, x) / _wave(math.cos, x), 1, 1),
}
# How tightly each operator binds, and its function.
_OPERATIONS: Final[dict[str, tuple[int, Callable[[Decimal, Decimal], Decimal]]]] = {
    "+": (1, lambda a, b: a + b),
    "-": (1, lambda a, b: a - b),
    "*": (2, lambda a, b: a * b),
    "/": (2, lambda a, b: a / b),
    "//": (2, lambda a, b: (a / b).to_integral_value(rounding="ROUND_FLOOR")),
    "%": (2, _modulo),
    "mod": (2, _modulo),
    "^": (4, _power),
    "**": (4, _power),
}


def _shown(value: Decimal) -> str:
    whole = value.to_integral_value()
    if value == whole and whole.adjusted() < _CONTEXT.prec:
        return f"{whole:f}" if whole else "0"
    rounded = Context(prec=_SHOWN_DIGITS).create_decimal(value).normalize()
    return f"{rounded:f}" if -10 <= rounded.adjusted() < _SHOWN_DIGITS else str(rounded)

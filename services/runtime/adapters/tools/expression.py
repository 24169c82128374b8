"""Evaluates decimal arithmetic with Python's `ast`. Limits on length, depth and size bound the time."""

import ast
import math
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DecimalException, DivisionByZero, InvalidOperation, Overflow, localcontext
from itertools import accumulate
from typing import Final, TypeVar

T = TypeVar("T")
_LONGEST: Final = 1000
_DEEPEST: Final = 50
_LARGEST_FACTORIAL: Final = 1000
# 120 digits keep every integer exact that people would type. The exponent limit rejects towers such as 9^9^9
# immediately.
_CONTEXT: Final = Context(prec=120, Emax=9_999, Emin=-9_999, traps=[InvalidOperation, DivisionByZero, Overflow])
_SHOWN_DIGITS: Final = 28
_FLOAT_DIGITS: Final = 15
_PI: Final = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
)
_TYPED_SIGNS: Final = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u2212": "-"})
_SYMBOL: Final = re.compile(r"\s*((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|\*\*|//|[-+*/%^(),!])")
_PYTHON: Final = {"^": "**", "mod": "%", "!": ".factorial"}


class ExpressionError(ValueError):
    """The expression is invalid or doesn't have a value. The message explains why."""


def evaluate(expression: str) -> str:
    """Returns the value as text.

    Integers are exact to 120 digits, other values to 28 significant digits, and sin, cos and tan to 15. Supports + - *
    / // % ^ ** ! brackets, `20%` (a fifth), pi, e and functions. Raises ExpressionError.
    """
    if len(expression) > _LONGEST:
        raise ExpressionError(f"the expression is longer than {_LONGEST} characters")
    symbols = _symbols(expression.translate(_TYPED_SIGNS).rstrip())
    with localcontext(_CONTEXT):
        try:
            return _shown(_value(_parsed(symbols), symbols))
        except DivisionByZero:
            raise ExpressionError("division by zero") from None
        except Overflow:
            raise ExpressionError("the result is too large") from None
        except DecimalException:
            raise ExpressionError("the expression doesn't have a value, e.g. the root of a negative number") from None
        except (RecursionError, MemoryError):
            raise _too_deep() from None


def _symbols(text: str) -> list[str]:
    symbols: list[str] = []
    place = 0
    while place < len(text):
        match = _SYMBOL.match(text, place)
        if match is None:
            raise ExpressionError(f"unexpected {text[place:].strip()[:1]!r} at position {place + 1}")
        symbols.append(match[1])
        place = match.end()
    if not symbols:
        raise ExpressionError("the expression is empty")
    if max(accumulate((symbol == "(") - (symbol == ")") for symbol in symbols)) > _DEEPEST:
        raise _too_deep()
    return symbols


def _parsed(symbols: list[str]) -> ast.expr:
    """Parses symbols, each on its own line, so that a line number identifies a symbol.

    Numbers are replaced with `1` and names with `f`.
    """
    lines = [_line(symbol, following) for symbol, following in zip(symbols, [*symbols[1:], ""], strict=True)]
    try:
        return ast.parse("\\\n".join(lines), mode="eval").body
    except SyntaxError as error:
        if "never closed" in error.msg:
            raise ExpressionError("expected ')' at the end") from None
        if not error.offset or error.lineno is None:
            raise ExpressionError("the expression ends too early") from None
        # For a missing comma, Python reports the value before it.
        raise ExpressionError(f"unexpected {symbols[error.lineno - ('comma' not in error.msg)]!r}") from None


def _line(symbol: str, following: str) -> str:
    if symbol[0].isdigit() or symbol[0] == ".":
        return "1"
    if symbol == "%" and re.match(r"(?!mod$)[\w.(]", following) is None:
        return ".percent"  # as in `20%`, `20% * 5`, `20% - 1`; before a value, % is the remainder
    return _PYTHON.get(symbol) or ("f" if symbol[0].isalpha() or symbol[0] == "_" else symbol)


def _value(node: ast.expr, symbols: list[str], depth: int = 0) -> Decimal:
    if depth > _DEEPEST:
        raise _too_deep()
    symbol = symbols[node.lineno - 1]
    match node:
        case ast.BinOp(left, op, right):
            # Long sums are nested on the left, so they don't count as deep.
            return _BINARY[type(op)](_value(left, symbols, depth), _value(right, symbols, depth + 1))
        case ast.UnaryOp(op, operand):
            value = _value(operand, symbols, depth + 1)
            return -value if isinstance(op, ast.USub) else value
        case ast.Attribute(operand, sign):
            value = _value(operand, symbols, depth + 1)
            return value / 100 if sign == "percent" else _factorial(value)
        case ast.Call(ast.Name(), arguments, []):
            function, fewest, most = _named(symbol, _FUNCTIONS)
            if not fewest <= len(arguments) <= most:
                raise ExpressionError(f"{symbol.lower()}() requires {fewest} to {most} values, not {len(arguments)}")
            return function(*[_value(argument, symbols, depth + 1) for argument in arguments])
        case ast.Name():
            return +_named(symbol, _CONSTANTS)()
        case ast.Constant():
            return +Decimal(symbol)
    raise ExpressionError("unexpected ','" if isinstance(node, ast.Tuple) else f"unexpected value after {symbol!r}")


def _named(symbol: str, known: Mapping[str, T]) -> T:
    try:
        return known[symbol.lower()]
    except KeyError:
        raise ExpressionError(
            f"unknown name {symbol[:40]!r}; use one of these functions: {', '.join(_FUNCTIONS)}"
        ) from None


def _too_deep() -> ExpressionError:
    return ExpressionError(f"the expression is nested more than {_DEEPEST} levels deep")


def _factorial(value: Decimal) -> Decimal:
    if value != value.to_integral_value() or not 0 <= value <= _LARGEST_FACTORIAL:
        raise ExpressionError(f"a factorial requires an integer from 0 to {_LARGEST_FACTORIAL}")
    return +Decimal(math.factorial(int(value)))


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if base == 0 and exponent < 0:
        raise ExpressionError("division by zero")
    return Decimal(1) if base == 0 == exponent else base**exponent


def _modulo(left: Decimal, right: Decimal) -> Decimal:
    """Returns the remainder with the sign of the divisor, as in mathematics."""
    if right == 0:
        raise ExpressionError("division by zero")
    remainder = left % right
    return remainder + right if remainder and (remainder < 0) != (right < 0) else remainder


def _round(value: Decimal, digits: Decimal = Decimal(0)) -> Decimal:
    if digits != digits.to_integral_value() or not -100 <= digits <= 100:
        raise ExpressionError("round() requires a number of digits from -100 to 100")
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
_BINARY: Final[dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: (a / b).to_integral_value(rounding="ROUND_FLOOR"),
    ast.Mod: _modulo,
    ast.Pow: _power,
}


def _shown(value: Decimal) -> str:
    whole = value.to_integral_value()
    if value == whole and whole.adjusted() < _CONTEXT.prec:
        return f"{whole:f}" if whole else "0"
    rounded = Context(prec=_SHOWN_DIGITS).create_decimal(value).normalize()
    return f"{rounded:f}" if -10 <= rounded.adjusted() < _SHOWN_DIGITS else str(rounded)

"""Evaluates arithmetic with decimals: a Pratt parser, bounded in length, depth, size and so in time."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import (
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from typing import Final

_LONGEST: Final = 1000
_DEEPEST: Final = 50
_LARGEST_FACTORIAL: Final = 1000
# 120 digits keep every integer a person would type exact; the exponent bound stops towers like 9^9^9 at once.
_CONTEXT: Final = Context(prec=120, Emax=9_999, Emin=-9_999, traps=[InvalidOperation, DivisionByZero, Overflow])
_SHOWN_DIGITS: Final = 28
_TYPED_SIGNS: Final = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u2212": "-"})
_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|//|[-+*/%^(),!]))"
)


class ExpressionError(ValueError):
    """The message says what is wrong with the expression, or why it has no value."""


def evaluate(expression: str) -> str:
    """The value as text: integers exact up to 120 digits, others to 28 significant digits.

    Knows + - * / // % ^ ** ! brackets, `20%` (a hundredth), pi, e and functions. Raises ExpressionError.
    """
    if len(expression) > _LONGEST:
        raise ExpressionError(f"the expression is longer than {_LONGEST} characters")
    with localcontext(_CONTEXT):
        try:
            return _shown(_Parser(_tokens(expression)).whole())
        except DivisionByZero:
            raise ExpressionError("division by zero") from None
        except Overflow:
            raise ExpressionError("the result is too large") from None
        except DecimalException:
            raise ExpressionError("the expression has no value, e.g. a root of a negative number") from None


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    text = expression.translate(_TYPED_SIGNS).rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ExpressionError(f"unexpected {text[place:].strip()[:1]!r} at position {place + 1}")
        tokens.append(match.group().strip())
        place = match.end()
    if not tokens:
        raise ExpressionError("the expression is empty")
    return tokens


def _factorial(value: Decimal) -> Decimal:
    if value != value.to_integral_value() or not 0 <= value <= _LARGEST_FACTORIAL:
        raise ExpressionError(f"a factorial needs an integer from 0 to {_LARGEST_FACTORIAL}")
    result = Decimal(1)
    for factor in range(2, int(value) + 1):
        result *= factor
    return result


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if base == 0 and exponent == 0:
        return Decimal(1)
    if base == 0 and exponent < 0:
        raise ExpressionError("division by zero")
    return base**exponent


def _modulo(left: Decimal, right: Decimal) -> Decimal:
    """The remainder with the sign of the divisor, as in mathematics."""
    if right == 0:
        raise ExpressionError("division by zero")
    remainder = left % right
    return remainder + right if remainder and (remainder < 0) != (right < 0) else remainder


def _floor_division(left: Decimal, right: Decimal) -> Decimal:
    return (left / right).to_integral_value(rounding="ROUND_FLOOR")


def _round(value: Decimal, digits: Decimal = Decimal(0)) -> Decimal:
    if digits != digits.to_integral_value() or not -100 <= digits <= 100:
        raise ExpressionError("round() takes a number of digits from -100 to 100")
    return value.quantize(Decimal(1).scaleb(-int(digits)), rounding="ROUND_HALF_UP")


_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
_CONSTANTS: Final = {"pi": lambda: _PI, "e": lambda: Decimal(1).exp()}


def _sine(angle: Decimal) -> Decimal:
    """Radians, by its series."""
    angle %= 2 * _PI
    term = total = angle
    for n in range(2, 400, 2):
        term *= -angle * angle / (n * (n + 1))
        total += term
        if abs(term) < Decimal("1e-60"):
            break
    return total.quantize(Decimal("1e-50")).normalize()


def _cosine(angle: Decimal) -> Decimal:
    return _sine(angle + _PI / 2)


def _tangent(angle: Decimal) -> Decimal:
    return _sine(angle) / _cosine(angle)


Function = Callable[..., Decimal]
_FUNCTIONS: Final[dict[str, tuple[Function, int, int]]] = {
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
    "sin": (_sine, 1, 1),
    "cos": (_cosine, 1, 1),
    "tan": (_tangent, 1, 1),
}

_BINARY: Final[dict[str, tuple[int, Callable[[Decimal, Decimal], Decimal]]]] = {
    "+": (10, lambda a, b: a + b),
    "-": (10, lambda a, b: a - b),
    "*": (20, lambda a, b: a * b),
    "/": (20, lambda a, b: a / b),
    "//": (20, _floor_division),
    "%": (20, _modulo),
    "mod": (20, _modulo),
    "^": (40, _power),
    "**": (40, _power),
}
_SIGN_STRENGTH: Final = 30


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    def whole(self) -> Decimal:
        value = self._value(0)
        if self._place < len(self._tokens):
            raise ExpressionError(f"unexpected {self._peek()!r}")
        return value

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        symbol = self._peek()
        if not symbol:
            raise ExpressionError("the expression ends too early")
        self._place += 1
        return symbol

    def _value(self, strength: int) -> Decimal:
        """A value and the operators after it that bind more strongly than `strength`."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExpressionError(f"the expression is nested deeper than {_DEEPEST}")
        left = self._operand()
        while True:
            symbol = self._peek()
            if symbol == "!" or (symbol == "%" and not self._operand_follows()):
                self._place += 1
                left = _factorial(left) if symbol == "!" else left / 100
                continue
            binding, operation = _BINARY.get(symbol, (0, None))
            if operation is None or binding <= strength:
                break
            self._place += 1
            # Powers group to the right: 2^3^2 is 2^9.
            left = operation(left, self._value(binding - 1 if operation is _power else binding))
        self._depth -= 1
        return left

    def _operand_follows(self) -> bool:
        """Whether % is the remainder (`7 % 3`) and not a hundredth (`20%`, `20% * 5`, `20% - 1`)."""
        after = self._tokens[self._place + 1] if self._place + 1 < len(self._tokens) else ""
        return after == "(" or after[:1] == "." or (after[:1].isalnum() and after != "mod")

    def _operand(self) -> Decimal:
        symbol = self._next()
        if symbol in "+-":
            value = self._value(_SIGN_STRENGTH)
            return -value if symbol == "-" else +value
        if symbol == "(":
            value = self._value(0)
            self._expect(")")
            return value
        if symbol[0].isdigit() or symbol[0] == ".":
            return +Decimal(symbol)
        return self._named(symbol)

    def _named(self, symbol: str) -> Decimal:
        name = symbol.lower()
        if name in _FUNCTIONS:
            return self._called(name)
        if name in _CONSTANTS:
            return +_CONSTANTS[name]()
        if symbol[0].isalpha() or symbol[0] == "_":
            raise ExpressionError(f"unknown name {symbol[:40]!r}; functions are {', '.join(_FUNCTIONS)}")
        raise ExpressionError(f"unexpected {symbol!r}")

    def _called(self, name: str) -> Decimal:
        function, fewest, most = _FUNCTIONS[name]
        self._expect("(")
        arguments = [self._value(0)]
        while self._peek() == ",":
            self._place += 1
            arguments.append(self._value(0))
        self._expect(")")
        if not fewest <= len(arguments) <= most:
            raise ExpressionError(f"{name}() takes {fewest} to {most} values, not {len(arguments)}")
        return function(*arguments)

    def _expect(self, symbol: str) -> None:
        if self._peek() != symbol:
            raise ExpressionError(
                f"expected {symbol!r}" + (f" before {self._peek()!r}" if self._peek() else " at the end")
            )
        self._place += 1


def _shown(value: Decimal) -> str:
    whole = value.to_integral_value()
    if value == whole and whole.adjusted() < _CONTEXT.prec:
        return f"{whole:f}" if whole else "0"
    rounded = Context(prec=_SHOWN_DIGITS).create_decimal(value).normalize()
    return f"{rounded:f}" if -10 <= rounded.adjusted() < _SHOWN_DIGITS else str(rounded)

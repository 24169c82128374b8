"""Decimals in messages and bodies. They're strings, since JSON numbers can lose digits."""

from decimal import Decimal


def decimal_text(number: Decimal) -> str:
    """Formats a decimal with all significant digits and without an exponent."""
    text = format(number, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text

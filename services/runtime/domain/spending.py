"""Prices of models, and the usage and cost of ended turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Protocol

from libs.contracts.api.sessions import Attribution, Usage
from libs.contracts.decimals import decimal_text

BUILTIN: Final = "builtin:"
"""Models of the service itself, which are free unless they have a price."""
_PER_TOKENS: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Prices of a million tokens, in the operator's currency."""

    input: Decimal
    output: Decimal

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Exact: a million is a power of ten."""
        return (self.input * input_tokens + self.output * output_tokens) / _PER_TOKENS


FREE: Final = ModelPrice(Decimal(0), Decimal(0))


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by model, or by prefix with ``*`` at its end; the longest one that fits holds."""

    prices: Mapping[str, ModelPrice] = field(default_factory=dict)

    def of(self, model: str) -> ModelPrice | None:
        """None for a model without a price."""
        if (exact := self.prices.get(model)) is not None:
            return exact
        fitting = [name for name in self.prices if name.endswith("*") and model.startswith(name[:-1])]
        if fitting:
            return self.prices[max(fitting, key=len)]
        return FREE if model.startswith(BUILTIN) else None


class Prices(Protocol):
    @property
    def table(self) -> PriceTable:
        """The prices that hold now; a change by the operator may take some seconds to be seen."""


class NoPrices:
    """Prices of an installation that has none."""

    table = PriceTable()


@dataclass(frozen=True, slots=True)
class TurnSpending:
    """The usage of an ended turn, and whose it is."""

    usage: Usage
    attribution: Attribution


def priced(usage: Usage, model: str, prices: PriceTable) -> Usage:
    """The usage with its cost at these prices."""
    price = prices.of(model)
    cost = None if price is None else decimal_text(price.cost(usage.input_tokens, usage.output_tokens))
    return usage.model_copy(update={"cost": cost})

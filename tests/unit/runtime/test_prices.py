"""Prices of models, and the cost of tokens at them."""

from decimal import Decimal

import pytest

from libs.contracts.replies import Usage
from services.runtime.domain.models import ModelPrice, PriceTable, priced

CHEAP, DEAR = ModelPrice(Decimal("0.05"), Decimal("0.4")), ModelPrice(Decimal("2.5"), Decimal("10"))
TABLE = PriceTable({"openai:*": CHEAP, "openai:gpt-5*": DEAR, "openai:gpt-5-nano": CHEAP})


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("openai:gpt-5-nano", CHEAP),
        ("openai:gpt-5", DEAR),
        ("openai:other", CHEAP),
        ("anthropic:claude", None),
        ("builtin:extractive", ModelPrice(Decimal(0), Decimal(0))),
    ],
)
def test_the_longest_name_that_fits_holds(model: str, expected: ModelPrice | None) -> None:
    assert TABLE.of(model) == expected


def test_a_cost_is_exact_to_the_last_digit() -> None:
    usage = Usage(input_tokens=1, output_tokens=3)
    table = PriceTable({"m": ModelPrice(Decimal("0.00000001"), Decimal("0.3"))})
    assert priced(usage, "m", table).cost == "0.00000090000001"
    assert priced(Usage(), "m", table).cost == "0"
    assert priced(usage, "another", table).cost is None


def test_a_great_many_tokens_lose_no_digit() -> None:
    table = PriceTable({"m": ModelPrice(Decimal("999999999.99999999"), Decimal(0))})
    assert priced(Usage(input_tokens=2_000_000_000), "m", table).cost == "1999999999999.99998"

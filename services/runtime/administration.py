"""Administration of model prices."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from libs.contracts.errors import NotFound, ValidationFailed
from libs.persistence import Database

_MODEL: Final = re.compile(r"[^\s*\x00-\x1f]{1,200}\*?|\*")
_HIGHEST: Final = Decimal(1_000_000_000)
_DECIMALS: Final = 8
_LIST: Final = "SELECT model, input_price, output_price, updated_at FROM model_prices ORDER BY model"
_SET: Final = """
    INSERT INTO model_prices (model, input_price, output_price) VALUES (%s, %s, %s)
    ON CONFLICT (model) DO UPDATE
    SET input_price = EXCLUDED.input_price, output_price = EXCLUDED.output_price, updated_at = now()
"""
_REMOVE: Final = "DELETE FROM model_prices WHERE model = %s RETURNING model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPrice:
    """A model's prices per million tokens. If ``model`` ends in ``*``, they apply to all models with that prefix."""

    model: str
    input_price: Decimal
    output_price: Decimal
    updated_at: datetime


class PriceAdministration:
    """Lists and changes model prices. A change takes effect within seconds, but not on earlier usage."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def prices(self) -> Sequence[ListedPrice]:
        return [ListedPrice(**row) for row in await self._database.records(_LIST)]

    async def set_price(self, model: str, input_price: Decimal, output_price: Decimal) -> None:
        """Adds or changes a price. Raises ``ValidationFailed``."""
        if not _MODEL.fullmatch(model):
            raise ValidationFailed("Invalid model. Use a name such as openai:gpt-5-mini, or a prefix that ends in *.")
        await self._database.execute(_SET, (model, _checked(input_price), _checked(output_price)))

    async def remove_price(self, model: str) -> None:
        """Deletes a price. Raises ``NotFound``."""
        if not await self._database.execute(_REMOVE, (model,)):
            raise NotFound(f"No price is set for '{model}'.")


@asynccontextmanager
async def administration(database_url: str) -> AsyncIterator[PriceAdministration]:
    """Opens the runtime's database, which must be migrated, and yields the price administration."""
    database = Database(database_url, name="runtime-administration", max_size=2, prepare=False)
    await database.open()
    try:
        yield PriceAdministration(database)
    finally:
        await database.close()


def _checked(price: Decimal) -> Decimal:
    exponent = price.as_tuple().exponent
    if not price.is_finite() or not 0 <= price <= _HIGHEST or not isinstance(exponent, int) or -exponent > _DECIMALS:
        raise ValidationFailed(
            f"Invalid price. Use a decimal from 0 to {_HIGHEST:,} with at most {_DECIMALS} decimal places."
        )
    return price

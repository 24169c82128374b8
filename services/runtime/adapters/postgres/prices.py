"""Model prices in PostgreSQL, cached in memory."""

import asyncio
from typing import Final

import structlog

from libs.contracts.errors import StoreUnavailable
from libs.persistence import Database, retry_until_available
from services.runtime.domain.models import ModelPrice, PriceTable

_log = structlog.get_logger("runtime.prices")
_PRICES: Final = "SELECT model, input_price, output_price FROM model_prices"
_SECONDS: Final = 5.0


class PostgresPrices:
    """A cache of the model prices. ``table`` is empty until the first ``read``."""

    def __init__(self, database: Database, *, seconds: float = _SECONDS) -> None:
        self.table = PriceTable()
        self._database = database
        self._seconds = seconds

    async def begin(self) -> None:
        """Reads the prices, with retries until the database is available."""
        await retry_until_available(self.read)

    async def read(self) -> None:
        rows = await self._database.execute(_PRICES)
        self.table = PriceTable({model: ModelPrice(paid, produced) for model, paid, produced in rows})

    async def run(self) -> None:
        """Reloads the prices until cancelled. During an outage, the cached prices stay in use."""
        while True:
            try:
                await self.read()
            except StoreUnavailable as problem:
                _log.warning("prices.not_read", problem=str(problem))
            await asyncio.sleep(self._seconds)

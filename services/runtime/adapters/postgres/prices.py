"""Prices of models in PostgreSQL, kept in memory and read again every few seconds."""

import asyncio
from typing import Final

import structlog

from libs.persistence import Database, is_outage
from services.runtime.domain.spending import ModelPrice, PriceTable

_log = structlog.get_logger("runtime.prices")
_PRICES: Final = "SELECT model, input_price, output_price FROM model_prices"
_SECONDS: Final = 5.0


class PostgresPrices:
    def __init__(self, database: Database, *, seconds: float = _SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._table: PriceTable | None = None

    async def current(self) -> PriceTable:
        if self._table is None:
            await self.read()
        assert self._table is not None
        return self._table

    async def read(self) -> None:
        rows = await self._database.execute(_PRICES)
        self._table = PriceTable({model: ModelPrice(paid, produced) for model, paid, produced in rows})

    async def run(self) -> None:
        """Reads them again and again, until cancelled; in an outage those before it hold."""
        while True:
            try:
                await self.read()
            except Exception as problem:
                if not is_outage(problem):
                    raise
                _log.warning("prices.not_read", problem=str(problem))
            await asyncio.sleep(self._seconds)

"""Outages of what an ingestion needs. They are no attempts of the work that met them."""

from typing import Final

from libs.contracts.errors import ServiceUnavailable, StoreBusy, StoreUnavailable
from services.ingestion.domain.embedding import EmbeddingUnavailable
from services.ingestion.domain.engines import EngineUnavailable

_OUTAGES: Final = (EmbeddingUnavailable, EngineUnavailable, StoreUnavailable, ServiceUnavailable, ConnectionError)


def is_outage(problem: Exception) -> bool:
    """Whether something did not answer. Lock contention is included, so the retries have to be bounded in time."""
    return isinstance(problem, _OUTAGES)


def is_unreachable(problem: Exception) -> bool:
    """An outage and no lock contention, which the work itself may cause."""
    # EngineUnavailable carries the database's error as its cause.
    return is_outage(problem) and not isinstance(problem.__cause__ or problem, StoreBusy)

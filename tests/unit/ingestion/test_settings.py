from typing import Any

import pytest
from pydantic import ValidationError

from services.ingestion.settings import IngestionSettings

GIVEN: dict[str, Any] = {
    "database_url": "postgresql://x",
    "objects_url": "file:/x",
    "signing_key": "k" * 40,
    "runtime_url": "http://x",
}


def test_the_watchdog_outlasts_the_longest_file() -> None:
    assert IngestionSettings(**GIVEN, parsing_timeout_seconds=600, watchdog_seconds=700).watchdog_seconds == 700
    with pytest.raises(ValidationError, match="AES_INGESTION_WATCHDOG_SECONDS must be longer"):
        IngestionSettings(**GIVEN, parsing_timeout_seconds=600)

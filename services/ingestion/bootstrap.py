"""Builds the ingestion service from its parts."""

from pathlib import Path

from libs.objects import open_store
from libs.service_defaults import Service
from services.ingestion.settings import IngestionSettings

MIGRATIONS = Path(__file__).parent / "migrations"


def build(settings: IngestionSettings) -> Service:
    """The service, ready to run: files, collections and knowledge bases."""
    service = Service("ingestion", settings, migrations=MIGRATIONS)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(store.start)
    return service

"""Runs the service: ``python -m services.ingestion all|api|worker|streams|migrate``. ``streams`` runs ingestions."""

import gc

if __name__ == "__main__":
    # Imported objects are never freed, so garbage collection during imports is wasted. `serve` turns it on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.ingestion.bootstrap import build, build_streams
    from services.ingestion.settings import IngestionSettings

    serve("ingestion", IngestionSettings, build, own_roles={"streams": build_streams})

"""``python -m services.ingestion all|api|worker|streams|migrate``; ``streams`` runs ingestions."""

import gc

if __name__ == "__main__":
    # Imported objects stay for good, so collections during the imports are wasted. `serve` turns collection on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.ingestion.bootstrap import build, build_streams
    from services.ingestion.settings import IngestionSettings

    serve("ingestion", IngestionSettings, build, own_roles={"streams": build_streams})

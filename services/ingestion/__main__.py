"""``python -m services.ingestion all|api|worker|streams|migrate``; ``streams`` carries out ingestions."""

import gc

if __name__ == "__main__":
    # What imports make stays; collections would look at it in vain. `serve` turns them on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.ingestion.bootstrap import build, build_streams
    from services.ingestion.settings import IngestionSettings

    serve("ingestion", IngestionSettings, build, own_roles={"streams": build_streams})

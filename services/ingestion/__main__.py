"""``python -m services.ingestion all|api|worker|streams|migrate``; ``streams`` carries out ingestions."""

from libs.service_defaults import serve
from services.ingestion.bootstrap import build, build_streams
from services.ingestion.settings import IngestionSettings

if __name__ == "__main__":
    serve("ingestion", IngestionSettings, build, own_roles={"streams": build_streams})

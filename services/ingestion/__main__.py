"""``python -m services.ingestion all|api|worker|migrate``"""

from libs.service_defaults import serve
from services.ingestion.bootstrap import build
from services.ingestion.settings import IngestionSettings

if __name__ == "__main__":
    serve("ingestion", IngestionSettings, build)

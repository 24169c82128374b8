"""``python -m services.artifacts all|api|worker|migrate``."""

from libs.service_defaults import serve
from services.artifacts.bootstrap import build
from services.artifacts.settings import ArtifactsSettings

if __name__ == "__main__":
    serve("artifacts", ArtifactsSettings, build)

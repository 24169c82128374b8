"""The command line of the artifacts service: ``python -m services.artifacts all|api|worker|migrate``."""

import gc

if __name__ == "__main__":
    # Imported objects are never freed, so garbage collection during imports is wasted. `serve` turns it on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.artifacts.bootstrap import build
    from services.artifacts.settings import ArtifactsSettings

    serve("artifacts", ArtifactsSettings, build)

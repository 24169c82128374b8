"""``python -m services.artifacts all|api|worker|migrate``."""

import gc

if __name__ == "__main__":
    # Imported objects live as long as the process, so collections needn't scan them. `serve` turns collection on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.artifacts.bootstrap import build
    from services.artifacts.settings import ArtifactsSettings

    serve("artifacts", ArtifactsSettings, build)

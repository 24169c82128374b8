"""Runs the service: ``python -m services.runtime all|api|worker|migrate``."""

import gc

if __name__ == "__main__":
    # Imported objects are never freed, so garbage collection during imports is wasted. `serve` turns it on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.runtime.bootstrap import build
    from services.runtime.settings import RuntimeSettings

    serve("runtime", RuntimeSettings, build)

"""``python -m services.runtime all|api|worker|migrate``."""

import gc

if __name__ == "__main__":
    # Imported objects stay for good, so collections during the imports are wasted. `serve` turns collection on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.runtime.bootstrap import build
    from services.runtime.settings import RuntimeSettings

    serve("runtime", RuntimeSettings, build)

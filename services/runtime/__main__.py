"""``python -m services.runtime all|api|worker|migrate``."""

import gc

if __name__ == "__main__":
    # What imports make stays; collections would look at it in vain. `serve` turns them on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.runtime.bootstrap import build
    from services.runtime.settings import RuntimeSettings

    serve("runtime", RuntimeSettings, build)

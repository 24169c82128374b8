"""The command line of the registry: ``python -m services.registry all|api|worker|migrate``."""

import gc

if __name__ == "__main__":
    # Imported objects are never freed, so garbage collection during imports is wasted. `serve` turns it on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.registry.bootstrap import build
    from services.registry.settings import RegistrySettings

    serve("registry", RegistrySettings, build)

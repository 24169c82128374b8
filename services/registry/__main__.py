"""``python -m services.registry all|api|worker|migrate``"""

import gc

if __name__ == "__main__":
    # Imported objects live as long as the process, so collections needn't scan them. `serve` turns collection on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.registry.bootstrap import build
    from services.registry.settings import RegistrySettings

    serve("registry", RegistrySettings, build)

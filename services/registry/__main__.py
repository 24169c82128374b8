"""``python -m services.registry all|api|worker|migrate``"""

import gc

if __name__ == "__main__":
    # What imports make stays; collections would look at it in vain. `serve` turns them on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.registry.bootstrap import build
    from services.registry.settings import RegistrySettings

    serve("registry", RegistrySettings, build)

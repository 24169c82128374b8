"""The gateway's command line: ``python -m services.gateway all|api|migrate``."""

import gc

if __name__ == "__main__":
    # Imported objects are never freed, so garbage collection during imports is wasted. `serve` turns it on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.gateway.bootstrap import build
    from services.gateway.settings import GatewaySettings

    serve("gateway", GatewaySettings, build)

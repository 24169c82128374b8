"""``python -m services.gateway all|api|migrate``"""

import gc

if __name__ == "__main__":
    # What imports make stays; collections would look at it in vain. `serve` turns them on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.gateway.bootstrap import build
    from services.gateway.settings import GatewaySettings

    serve("gateway", GatewaySettings, build)

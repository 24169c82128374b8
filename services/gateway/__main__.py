"""``python -m services.gateway all|api|worker|timeline|webhooks|migrate``"""

import gc

if __name__ == "__main__":
    # What imports make stays; collections would look at it in vain. `serve` turns them on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.gateway.bootstrap import TIMELINE, WEBHOOKS, build, build_timeline, build_webhooks
    from services.gateway.settings import GatewaySettings

    serve("gateway", GatewaySettings, build, own_roles={TIMELINE: build_timeline, WEBHOOKS: build_webhooks})

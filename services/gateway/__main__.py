"""``python -m services.gateway all|api|worker|timeline|webhooks|migrate``"""

from libs.service_defaults import serve
from services.gateway.bootstrap import TIMELINE, WEBHOOKS, build, build_timeline, build_webhooks
from services.gateway.settings import GatewaySettings

if __name__ == "__main__":
    serve("gateway", GatewaySettings, build, own_roles={TIMELINE: build_timeline, WEBHOOKS: build_webhooks})

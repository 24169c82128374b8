"""``python -m services.gateway all|api|worker|migrate``"""

from libs.service_defaults import serve
from services.gateway.bootstrap import build
from services.gateway.settings import GatewaySettings

if __name__ == "__main__":
    serve("gateway", GatewaySettings, build)

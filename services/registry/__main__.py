"""``python -m services.registry all|api|worker|migrate``"""

from libs.service_defaults import serve
from services.registry.bootstrap import build
from services.registry.settings import RegistrySettings

if __name__ == "__main__":
    serve("registry", RegistrySettings, build)

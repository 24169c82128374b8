"""``python -m services.runtime all|api|worker|migrate``."""

from libs.service_defaults import serve
from services.runtime.bootstrap import build
from services.runtime.settings import RuntimeSettings

if __name__ == "__main__":
    serve("runtime", RuntimeSettings, build)

"""The embedded stack with the log of the timeline in a process of its own: `python -m benchmarks.divided_gateway`."""

import sys
from typing import Final

from deploy.local.services import SERVICES, ProcessRole, Service
from deploy.local.supervisor import main

LOG: Final = "gateway-timeline"
"""Name of the process that fills the log."""
_GATEWAY: Final = Service("gateway", (ProcessRole("api"), ProcessRole("timeline", serves_http=False)))

if __name__ == "__main__":
    sys.exit(main([_GATEWAY if service.name == "gateway" else service for service in SERVICES]))

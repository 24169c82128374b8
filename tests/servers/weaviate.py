"""One Weaviate server, without Docker.

The stack does not run it; tests and benchmarks of the engine do.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.managed_process import ManagedProcess, Report
from deploy.local.ports import choose_free
from deploy.local.processes import Command
from libs.diagnostics.health import get
from tests.servers.go import WEAVIATE

_PORTS = (
    "GRPC_PORT",
    "CLUSTER_GOSSIP_BIND_PORT",
    "CLUSTER_DATA_BIND_PORT",
    "RAFT_PORT",
    "RAFT_INTERNAL_RPC_PORT",
)


@dataclass
class WeaviateServer(ManagedProcess):
    """A part for `deploy.local.foreground.start`; started again, it goes on with what it has stored."""

    directory: Path
    environment: dict[str, str]
    name: str = "weaviate"
    port: int = field(init=False)

    def __post_init__(self) -> None:
        taken: set[int] = set()
        for _ in range(len(_PORTS) + 1):
            taken.add(choose_free(taken))
        self.port, *others = sorted(taken)
        self._ports = dict(zip(_PORTS, map(str, others), strict=True))

    @property
    def log(self) -> Path:
        return self.directory / "weaviate.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def grpc_port(self) -> int:
        return int(self._ports["GRPC_PORT"])

    async def prepare(self, report: Report) -> None:
        report(f"starting {WEAVIATE}")
        self.directory.mkdir(parents=True, exist_ok=True)

    def command(self) -> Command:
        settings = {
            **self._ports,
            "PERSISTENCE_DATA_PATH": str(self.directory / "data"),
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
            "DEFAULT_VECTORIZER_MODULE": "none",
            # A write to an emptied server would otherwise create a collection with other settings.
            "AUTOSCHEMA_ENABLED": "false",
            "CLUSTER_HOSTNAME": "node1",
            "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
            "RAFT_BOOTSTRAP_EXPECT": "1",
            "DISABLE_TELEMETRY": "true",
            "GO_PROFILING_DISABLE": "true",
            "LOG_LEVEL": "warning",
        }
        address = ["--scheme", "http", "--host", "127.0.0.1", "--port", str(self.port)]
        return Command(
            arguments=[str(WEAVIATE.path), *address],
            environment={**self.environment, **settings},
            directory=self.directory,
            log=self.log,
        )

    async def is_ready(self) -> bool:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                status, _ = await get(self.url, "/v1/.well-known/ready")
                return status == 200
        return False

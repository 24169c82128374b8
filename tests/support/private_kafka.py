"""A Kafka of a test's own behind a proxy, to take it away and give it back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.ports import choose_free
from tests.support.tcp_proxy import TcpProxy


@dataclass
class _ProxiedKafka(Kafka):
    advertised_port: int = 0

    def _configuration(self) -> str:
        return (
            super()
            ._configuration()
            .replace(
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.advertised_port}",
            )
        )


@dataclass(frozen=True)
class PrivateKafka:
    """``bootstrap_servers`` lead through the proxy, as does every address that the broker names."""

    bootstrap_servers: str
    proxy: TcpProxy


@asynccontextmanager
async def private_kafka(directory: Path, environment: dict[str, str]) -> AsyncIterator[PrivateKafka]:
    home = Home.from_environment()
    home.create()
    port = choose_free()
    controller = choose_free({port})
    advertised = choose_free({port, controller})
    kafka = _ProxiedKafka(
        directory=directory / "kafka",
        log=directory / "kafka.log",
        cache=home.cache,
        port=port,
        controller_port=controller,
        environment=environment,
        advertised_port=advertised,
    )
    running = await start(kafka, lambda _: None)
    try:
        async with TcpProxy(port=advertised, target_port=port) as proxy:
            yield PrivateKafka(f"127.0.0.1:{advertised}", proxy)
    finally:
        running.stop()

"""A Kafka of a test's own whose every address leads through a proxy, to take it away and give it back."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
        listener = "advertised.listeners=PLAINTEXT://127.0.0.1"
        return super()._configuration().replace(f"{listener}:{self.port}", f"{listener}:{self.advertised_port}")


@dataclass(frozen=True)
class PrivateKafka:
    """Reached at ``bootstrap_servers`` while a proxy runs."""

    port: int
    advertised_port: int

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.advertised_port}"

    def proxy(self) -> TcpProxy:
        return TcpProxy(port=self.advertised_port, target_port=self.port)


@contextmanager
def private_kafka(directory: Path) -> Iterator[PrivateKafka]:
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
        environment=dict(os.environ),
        advertised_port=advertised,
    )
    with ThreadPoolExecutor(1) as outside_of_any_loop:
        running = outside_of_any_loop.submit(lambda: asyncio.run(start(kafka, lambda _: None))).result()
    try:
        yield PrivateKafka(port, advertised)
    finally:
        running.stop()

"""Where operators' commands find the bus."""

import os
from dataclasses import dataclass

from deploy.local.errors import StackError


@dataclass(frozen=True)
class BusAddress:
    servers: str
    """host:port of brokers, separated by commas."""
    prefix: str
    """Goes before every topic and group."""


def bus_address() -> BusAddress:
    """What AES_KAFKA_BOOTSTRAP_SERVERS names, else the embedded stack's; raises StackError without either."""
    from deploy.local.home import Home
    from deploy.local.state import StackState

    prefix = os.environ.get("AES_TOPIC_PREFIX", "")
    if servers := os.environ.get("AES_KAFKA_BOOTSTRAP_SERVERS"):
        return BusAddress(servers, prefix)
    part = StackState.read(Home.from_environment().state_file).parts.get("kafka")
    if part is None or part.port is None or part.pid is None:
        raise StackError(
            "There is no Kafka to ask: the embedded stack does not run and no broker was named.",
            "Start the stack with: ./aes up, or set AES_KAFKA_BOOTSTRAP_SERVERS to host:port.",
        )
    return BusAddress(f"127.0.0.1:{part.port}", prefix)

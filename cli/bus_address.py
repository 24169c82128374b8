"""Finds Kafka for operators' commands."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.kafka import USERNAME
from deploy.local.state import StackState
from libs.eventing import KafkaConnection, KafkaSettings


@dataclass(frozen=True)
class BusAddress:
    kafka: KafkaConnection
    prefix: str
    """Prefix of every topic and group."""

    @property
    def servers(self) -> str:
        """Brokers as host:port, separated by commas."""
        return self.kafka.servers


def bus_address() -> BusAddress:
    """Takes AES_KAFKA_BOOTSTRAP_SERVERS, else the embedded stack's Kafka. Raises StackError without either."""
    prefix = os.environ.get("AES_TOPIC_PREFIX", "")
    if os.environ.get("AES_KAFKA_BOOTSTRAP_SERVERS"):
        return BusAddress(named_kafka(), prefix)
    home = Home.from_environment()
    part = StackState.read(home.state_file).parts.get("kafka")
    if part is None or part.port is None or part.pid is None:
        raise StackError(
            "There is no Kafka to ask: the embedded stack does not run and no broker was named.",
            "Start the stack with: ./aes up, or set AES_KAFKA_BOOTSTRAP_SERVERS to host:port.",
        )
    return embedded_bus(home, part.port, prefix)


def embedded_bus(home: Home, port: int, prefix: str) -> BusAddress:
    """The embedded stack's Kafka."""
    kafka = KafkaConnection(
        servers=f"127.0.0.1:{port}",
        security_protocol="sasl_plaintext",
        sasl_mechanism="PLAIN",
        username=USERNAME,
        password=home.kafka_password_file.read_text().strip(),
    )
    return BusAddress(kafka, prefix)


def named_kafka(environment: Mapping[str, str] = os.environ) -> KafkaConnection:
    """Kafka as the services' AES_KAFKA_… variables describe it. Raises StackError."""
    try:
        given = {name: value for name, value in environment.items() if name.startswith("AES_KAFKA_")}
        return KafkaSettings.model_validate(given).kafka()
    except ValidationError as problem:
        # Without the values: a password may be among them.
        found = problem.errors(include_input=False, include_url=False)
        told = "; ".join(": ".join([*map(str, error["loc"]), error["msg"]]) for error in found)
        raise StackError(f"Kafka's settings do not fit: {told}", "See docs/configuration.md.") from None

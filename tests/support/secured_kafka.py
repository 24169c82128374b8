"""A Kafka of a test's own that is reached by TLS with a name and a password, and lets everyone do what rules say."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest, CreateAclsRequest_v1

from deploy.k8s.kafka_access import Rule, rules_by_user
from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.ports import choose_free
from libs.eventing import KafkaConnection
from tests.support.certificates import Certificates, make_certificates

_RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transactionalId": 5}
_OPERATIONS = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Describe": 8,
    "DescribeConfigs": 10,
}
_LITERAL, _PREFIXED, _ALLOW = 3, 4, 3


@dataclass
class _SecuredKafka(Kafka):
    """The plain listener is for the broker itself and for whoever sets it up, the other one for everybody."""

    secured_port: int = 0
    server_file: str = ""
    passwords: Mapping[str, str] = field(default_factory=dict)

    def _configuration(self) -> str:
        plain, secured = f"PLAINTEXT://127.0.0.1:{self.port}", f"SASL_SSL://127.0.0.1:{self.secured_port}"
        added = {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.server_file,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **{
                f"listener.name.sasl_ssl.{mechanism}.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                )
                for mechanism in ("scram-sha-512", "scram-sha-256")
            },
        }
        text = super()._configuration().replace(plain, f"{plain},{secured}")
        text = text.replace("PLAINTEXT:PLAINTEXT,", "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,")
        return text + "".join(f"{name}={value}\n" for name, value in added.items())

    def _format_arguments(self) -> list[str]:
        return [
            f"--add-scram={mechanism}=[name={user},password={password}]"
            for user, password in self.passwords.items()
            for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256")
        ]


@dataclass(frozen=True)
class SecuredKafka:
    inside: str
    """Bootstrap servers of the plain listener, for whom nothing is refused."""
    servers: str
    certificates: Certificates
    passwords: Mapping[str, str]

    def connection(self, user: str, **changes: Any) -> KafkaConnection:
        """As that user, with its password."""
        given: dict[str, Any] = {
            "servers": self.servers,
            "security_protocol": "sasl_ssl",
            "username": user,
            "password": self.passwords[user],
            "ca_file": str(self.certificates.ca_file),
        }
        return KafkaConnection(**{**given, **changes})

    def environment(self, user: str) -> dict[str, str]:
        """The same for a process."""
        return {
            "AES_KAFKA_BOOTSTRAP_SERVERS": self.servers,
            "AES_KAFKA_SECURITY_PROTOCOL": "sasl_ssl",
            "AES_KAFKA_USERNAME": user,
            "AES_KAFKA_PASSWORD": self.passwords[user],
            "AES_KAFKA_CA_FILE": str(self.certificates.ca_file),
        }


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """With the users of `deploy/k8s` and their rules."""
    home = Home.from_environment()
    home.create()
    certificates = make_certificates(directory)
    taken: set[int] = set()
    for _ in range(3):
        taken.add(choose_free(taken))
    port, controller, secured = taken
    users = rules_by_user()
    kafka = _SecuredKafka(
        directory=directory / "kafka",
        log=directory / "kafka.log",
        cache=home.cache,
        port=port,
        controller_port=controller,
        environment=dict(os.environ),
        secured_port=secured,
        server_file=str(certificates.server_file),
        passwords={user: f"password of {user}".replace(" ", "-") for user in users},
    )

    async def begin() -> Any:
        running = await start(kafka, lambda _: None)
        await allow(kafka.bootstrap_servers, users)
        return running

    with ThreadPoolExecutor(1) as outside_of_any_loop:
        running = outside_of_any_loop.submit(lambda: asyncio.run(begin())).result()
    try:
        yield SecuredKafka(kafka.bootstrap_servers, f"127.0.0.1:{secured}", certificates, kafka.passwords)
    finally:
        running.stop()


class _CreateAcls(CreateAclsRequest):  # type: ignore[misc]
    """Many at once, which aiokafka's own does not offer."""

    def __init__(self, creations: list[tuple[Any, ...]]) -> None:
        self._creations = creations

    def build(self, _request_class: Any) -> CreateAclsRequest_v1:
        return CreateAclsRequest_v1(self._creations)


async def allow(servers: str, users: Mapping[str, list[Rule]]) -> None:
    """Makes the rules of all users, as somebody for whom nothing is refused."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        creations = [entry for user, rules in users.items() for rule in rules for entry in _entries(user, rule)]
        response = await admin._send_request(_CreateAcls(creations))
        assert [code for code, _ in response.creation_responses] == [0] * len(creations)
    finally:
        await admin.close()


def _entries(user: str, rule: Rule) -> list[tuple[Any, ...]]:
    pattern = _PREFIXED if rule.prefix else _LITERAL
    return [
        (_RESOURCES[rule.type], rule.name, pattern, f"User:{user}", "*", _OPERATIONS[operation], _ALLOW)
        for operation in rule.operations
    ]

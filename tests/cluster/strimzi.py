"""Strimzi's part, by hand: an authority, users with their rules, and topics for the Kafka of an installation."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from pathlib import Path
from typing import Final

from deploy.k8s.kafka_access import rules_by_user
from tests.cluster.cluster import Installation, Manifest, apply, until
from tests.support.certificates import Authority
from tests.support.secured_kafka import allow

_LISTENER: Final = "aes-kafka-bootstrap"
_CONFIGURE: Final = (
    'java -Xmx64m -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "/opt/kafka/libs/*" kafka.admin.ConfigCommand '
    "--bootstrap-server 127.0.0.1:9092 --alter --entity-type users"
)
_USER_SECONDS: Final = 600.0


def make_secrets(namespace: str) -> dict[str, str]:
    """The authority's certificate, Kafka's own, and a password for each user, which are returned."""
    passwords = {user: secrets.token_hex(16) for user in rules_by_user()}
    apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *_certificates(namespace),
        *(_secret(namespace, user, {"password": password}) for user, password in passwords.items()),
    )
    return passwords


def set_up(installation: Installation, passwords: dict[str, str]) -> None:
    """Users, their rules and topics in an installation's Kafka, the topics by the operator's pod."""
    until(lambda: not {"kafka"} & {*installation.missing()}, "Kafka is ready")
    commands = (
        f"{_CONFIGURE} --entity-name {user} --add-config 'SCRAM-SHA-512=[password={password}]'"
        for user, password in passwords.items()
    )
    installation.ask("exec", "kafka-0", "--", "bash", "-ec", "\n".join(commands), seconds=_USER_SECONDS)
    asyncio.run(allow("kafka:9092", rules_by_user()))
    installation.ask("create", "job", "topics", "--from=cronjob/operator")
    installation.ask("wait", "--for=jsonpath={.status.ready}=1", "job/topics", "--timeout=120s", seconds=150)
    installation.ask("exec", "job/topics", "--", "python", "-m", "cli", "topics", "create")
    installation.ask("delete", "job", "topics")


def _certificates(namespace: str) -> list[Manifest]:
    names = (_LISTENER, f"{_LISTENER}.{namespace}", f"{_LISTENER}.{namespace}.svc")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        Authority(directory, "ca").issue("server", "kafka", addresses=names)
        files = {name: (directory / name).read_text() for name in ("ca.crt", "server.crt", "server.key")}
    return [
        _secret(namespace, "aes-cluster-ca-cert", {"ca.crt": files["ca.crt"]}),
        _secret(namespace, "kafka-server", {"server.pem": files["server.key"] + files["server.crt"]}),
    ]


def _secret(namespace: str, name: str, data: dict[str, str]) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}

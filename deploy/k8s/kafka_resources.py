"""Writes the topics and users as Strimzi resources: `python -m deploy.k8s.kafka_resources`."""

from pathlib import Path
from typing import Any, Final

import yaml

from deploy.k8s.kafka_access import Rule, rules_by_user
from libs.contracts.topics import MAX_MESSAGE_BYTES, Topic, TopicKind, with_dead_letters

CLUSTER: Final = "aes"
API: Final = "kafka.strimzi.io/v1"
_DIRECTORY: Final = Path(__file__).parent / "components" / "strimzi"
_HEADING: Final = "# Generated from libs/contracts/topics.py by: python -m deploy.k8s.kafka_resources\n"
_REPLICAS: Final = 3
_IN_SYNC: Final = 2


def files() -> dict[Path, str]:
    topics = with_dead_letters()
    dead = [topic for topic in topics if topic.kind is TopicKind.DEAD_LETTERS]
    living = [topic for topic in topics if topic.kind is not TopicKind.DEAD_LETTERS]
    users = [_user(name, rules) for name, rules in rules_by_user().items()]
    return {
        _DIRECTORY / "topics.yaml": _text(map(_topic, living)),
        _DIRECTORY / "dead-letters.yaml": _text(map(_topic, dead)),
        _DIRECTORY / "users.yaml": _text(users),
    }


def _text(resources: Any) -> str:
    return _HEADING + yaml.safe_dump_all(resources, sort_keys=False, width=120)


def _topic(topic: Topic) -> dict[str, Any]:
    config = {
        "min.insync.replicas": _IN_SYNC,
        "retention.ms": topic.retention_ms,
        "segment.ms": topic.segment_ms,
        "max.message.bytes": MAX_MESSAGE_BYTES + 64 * 1024,
    }
    spec = {"partitions": topic.partitions, "replicas": _REPLICAS, "config": config}
    return _resource("KafkaTopic", topic.name, spec)


def _user(name: str, rules: list[Rule]) -> dict[str, Any]:
    authorization = {"type": "simple", "acls": [_rule(rule) for rule in rules]}
    return _resource("KafkaUser", name, {"authentication": {"type": "scram-sha-512"}, "authorization": authorization})


def _resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"strimzi.io/cluster": CLUSTER}}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def _rule(rule: Rule) -> dict[str, Any]:
    resource: dict[str, Any] = {"type": rule.type}
    if rule.type != "cluster":
        resource |= {"name": rule.name, "patternType": "prefix" if rule.prefix else "literal"}
    return {"resource": resource, "operations": list(rule.operations)}


if __name__ == "__main__":
    for file, text in files().items():
        file.write_text(text)

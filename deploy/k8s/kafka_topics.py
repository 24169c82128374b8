"""Writes the declared topics as resources of Strimzi's topic operator: `python -m deploy.k8s.kafka_topics`."""

from pathlib import Path
from typing import Any, Final

import yaml

from libs.contracts.topics import MAX_MESSAGE_BYTES, Topic, TopicKind, with_dead_letters

CLUSTER: Final = "aes"
_DIRECTORY: Final = Path(__file__).parent / "components" / "strimzi"
_HEADING: Final = "# Made of libs/contracts/topics.py by: python -m deploy.k8s.kafka_topics\n"
_REPLICAS: Final = 3
_IN_SYNC: Final = 2


def files() -> dict[Path, str]:
    """What has to stand in which file."""
    topics = with_dead_letters()
    dead = [topic for topic in topics if topic.kind is TopicKind.DEAD_LETTERS]
    living = [topic for topic in topics if topic.kind is not TopicKind.DEAD_LETTERS]
    return {_DIRECTORY / "topics.yaml": _text(living), _DIRECTORY / "dead-letters.yaml": _text(dead)}


def _text(topics: list[Topic]) -> str:
    return _HEADING + yaml.safe_dump_all(map(_resource, topics), sort_keys=False, width=120)


def _resource(topic: Topic) -> dict[str, Any]:
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaTopic",
        "metadata": {"name": topic.name, "labels": {"strimzi.io/cluster": CLUSTER}},
        "spec": {
            "partitions": topic.partitions,
            "replicas": _REPLICAS,
            "config": {
                "min.insync.replicas": _IN_SYNC,
                "retention.ms": topic.retention_ms,
                "segment.ms": topic.segment_ms,
                "max.message.bytes": MAX_MESSAGE_BYTES + 64 * 1024,
            },
        },
    }


if __name__ == "__main__":
    for file, text in files().items():
        file.write_text(text)

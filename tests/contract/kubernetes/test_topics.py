"""Kafka's resources say what libs/contracts/topics.py says."""

import pytest

from deploy.k8s.kafka_resources import CLUSTER, files
from libs.contracts.topics import EVENT_TOPICS, with_dead_letters
from tests.support.kustomize import Manifest, of_kind


def test_the_committed_topics_are_those_declared() -> None:
    for file, text in files().items():
        assert file.read_text() == text, "run: python -m deploy.k8s.kafka_resources"


@pytest.mark.parametrize("name", ["production", "keda"])
def test_every_topic_is_made(name: str, request: pytest.FixtureRequest) -> None:
    made = of_kind(request.getfixturevalue(name), "KafkaTopic")

    assert {topic["metadata"]["name"]: topic["spec"]["partitions"] for topic in made} == {
        topic.name: topic.partitions for topic in with_dead_letters()
    }


def test_outside_consumers_read_events_and_nothing_else(production: tuple[Manifest, ...]) -> None:
    users = [user for user in of_kind(production, "KafkaUser") if user["metadata"]["name"].startswith("outside-")]
    assert users
    for user in users:
        assert user["metadata"]["labels"]["strimzi.io/cluster"] == CLUSTER
        rules = user["spec"]["authorization"]["acls"]
        topics = [rule for rule in rules if rule["resource"]["type"] == "topic"]
        (group,) = [rule for rule in rules if rule["resource"]["type"] == "group"]
        assert {rule["resource"]["name"] for rule in topics} == {topic.name for topic in EVENT_TOPICS}
        assert all(rule["resource"]["patternType"] == "literal" for rule in topics)
        assert all(set(rule["operations"]) <= {"Read", "Describe"} for rule in rules)
        # No group of a service's begins like this.
        assert group["resource"] == {"type": "group", "name": "outside-consumer-", "patternType": "prefix"}

"""Kafka's resources say what libs/contracts/topics.py says."""

from deploy.k8s.kafka_resources import CLUSTER, files
from libs.contracts.topics import EVENT_TOPICS
from tests.contract.kustomize import Manifest, of_kind


def test_the_committed_topics_are_those_declared() -> None:
    for file, text in files().items():
        assert file.read_text() == text, "run: python -m deploy.k8s.kafka_resources"


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


def test_every_process_comes_in_as_a_user_that_is_made(production: tuple[Manifest, ...]) -> None:
    rules = {user["metadata"]["name"]: user["spec"] for user in of_kind(production, "KafkaUser")}
    for process in of_kind(production, "Deployment"):
        service = process["metadata"]["labels"]["app.kubernetes.io/name"]
        (container,) = process["spec"]["template"]["spec"]["containers"]
        given = {variable["name"]: variable for variable in container["env"]}
        user = given["AES_KAFKA_USERNAME"]["value"]
        assert user == f"{service}-kafka"
        assert rules[user]["authentication"] == {"type": "scram-sha-512"}
        assert given["AES_KAFKA_PASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": user, "key": "password"}


def test_the_cluster_lets_nobody_in_unencrypted_or_unknown(production: tuple[Manifest, ...]) -> None:
    (cluster,) = of_kind(production, "Kafka")
    (pool,) = of_kind(production, "KafkaNodePool")
    (listener,) = cluster["spec"]["kafka"]["listeners"]
    assert (listener["tls"], listener["authentication"]["type"]) == (True, "scram-sha-512")
    assert cluster["spec"]["kafka"]["authorization"] == {"type": "simple"}
    # Any that is named here is one day too old for a new Strimzi, which then does nothing with the cluster.
    assert "version" not in cluster["spec"]["kafka"]
    assert cluster["metadata"]["name"] == pool["metadata"]["labels"]["strimzi.io/cluster"] == CLUSTER
    made = of_kind(production, "KafkaTopic")
    assert {topic["spec"]["replicas"] for topic in made} == {pool["spec"]["replicas"]}
    (installation,) = of_kind(production, "ConfigMap")
    assert installation["data"]["AES_KAFKA_BOOTSTRAP_SERVERS"] == f"{CLUSTER}-kafka-bootstrap:{listener['port']}"

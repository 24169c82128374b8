"""Resources of operators: topics and users as declared, and known to their schemas down to the last field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

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


DIRECTORY = Path(__file__).with_name("custom_resources")
TRIGGERS = json.loads((DIRECTORY / "triggers.json").read_text())
OPERATORS = {"kafka.strimzi.io/v1", "keda.sh/v1alpha1", "monitoring.coreos.com/v1"}


def closed(schema: Any) -> Any:
    """The schema, refusing what it does not name, and with numbers that may be written as text."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") is True:
        return {"type": ["integer", "string"]}
    found = {name: closed(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and "x-kubernetes-preserve-unknown-fields" not in schema:
        found.setdefault("additionalProperties", False)
    return found


def faults(manifest: Manifest) -> list[str]:
    schema = closed(json.loads((DIRECTORY / f"{manifest['kind']}.json").read_text()))
    # Kubernetes' own, the same for every kind.
    schema["properties"]["metadata"] = {"type": "object"}
    found = jsonschema_rs.Draft7Validator(schema).iter_errors(manifest)
    return [f"{manifest['kind']} {manifest['metadata']['name']}: {list(e.instance_path)}: {e.message}" for e in found]


def _of_operators(manifests: tuple[Manifest, ...]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["apiVersion"] in OPERATORS]


@pytest.mark.parametrize(("name", "count"), [("production", 39), ("keda", 48), ("monitored", 2)])
def test_resources_of_operators_fit_their_schemas(name: str, count: int, request: pytest.FixtureRequest) -> None:
    resources = _of_operators(request.getfixturevalue(name))

    assert len(resources) == count
    assert [fault for resource in resources for fault in faults(resource)] == []


def test_triggers_are_told_what_they_read(keda: tuple[Manifest, ...]) -> None:
    for trigger in _triggers(keda):
        expected = closed(TRIGGERS[trigger["type"]]["metadata"])
        assert jsonschema_rs.Draft7Validator(expected).is_valid(trigger["metadata"]), trigger


def test_secrets_reach_triggers_by_names_that_they_read(keda: tuple[Manifest, ...]) -> None:
    authentications = {one["metadata"]["name"]: one["spec"] for one in of_kind(keda, "TriggerAuthentication")}
    for trigger in _triggers(keda):
        if "authenticationRef" in trigger:
            given = authentications[trigger["authenticationRef"]["name"]]
            named = {one["parameter"] for one in [*given.get("env", []), *given.get("secretTargetRef", [])]}
            assert named <= {*TRIGGERS[trigger["type"]]["authentication"]}


def _triggers(keda: tuple[Manifest, ...]) -> Iterator[Manifest]:
    for scaler in of_kind(keda, "ScaledObject"):
        yield from scaler["spec"]["triggers"]

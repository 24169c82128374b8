"""Every overlay is what Kubernetes 1.33 takes, and what its restricted pod security lets run."""

import base64
from collections.abc import Iterator

import kubernetes_validate
import pytest

from tests.contract.kustomize import Manifest, containers_of, of_kind, pod

# Of operators that a cluster may have; their schemas are theirs.
CUSTOM = {"Kafka", "KafkaNodePool", "KafkaTopic", "KafkaUser", "ScaledObject", "TriggerAuthentication"}
# What Strimzi makes pods of: where it is declared, its parts, and what their containers are called in its template.
STRIMZI_PODS: dict[str, dict[str, str]] = {
    "entityOperator": {"topicOperator": "topicOperatorContainer", "userOperator": "userOperatorContainer"},
    "cruiseControl": {"": "cruiseControlContainer"},
    "kafkaExporter": {"": "container"},
}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@pytest.mark.slow(covered_by="test_pods_are_restricted")
def test_resources_fit_their_schemas(overlay: tuple[Manifest, ...]) -> None:
    known = [manifest for manifest in overlay if manifest["kind"] not in CUSTOM]
    assert len(known) > 30
    for manifest in known:
        kubernetes_validate.validate(manifest, "1.33", strict=True)


def test_nothing_is_there_twice(overlay: tuple[Manifest, ...]) -> None:
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in overlay]
    assert len(set(names)) == len(names)


def test_pods_are_restricted(overlay: tuple[Manifest, ...]) -> None:
    for manifest in of_kind(overlay, "Deployment", "Job", "CronJob", "StatefulSet"):
        specification = pod(manifest)
        assert specification["securityContext"]["runAsNonRoot"], manifest["metadata"]["name"]
        assert specification["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert specification["automountServiceAccountToken"] is False
        assert specification["enableServiceLinks"] is False
        # Servers of others write where they like.
        read_only = {} if manifest["kind"] == "StatefulSet" else {"readOnlyRootFilesystem": True}
        for container in containers_of(manifest):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                **read_only,
            }


def test_volumes_are_given_to_a_group_once(overlay: tuple[Manifest, ...]) -> None:
    """At each start anew would make PostgreSQL's directory writable for the group, with which it does not start."""
    for manifest in of_kind(overlay, "StatefulSet"):
        rights = pod(manifest)["securityContext"]
        assert "fsGroup" in rights, manifest["metadata"]["name"]
        assert rights["fsGroupChangePolicy"] == "OnRootMismatch", manifest["metadata"]["name"]


def test_pods_of_operators_are_restricted_where_nothing_else_may_run(overlay: tuple[Manifest, ...]) -> None:
    (namespace,) = of_kind(overlay, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    templates = list(_templates_of_strimzi(overlay))
    # Brokers and the operators of topics and users.
    assert len(templates) == (2 if of_kind(overlay, "Kafka") else 0)
    for template, containers in templates:
        assert template["pod"]["securityContext"]["runAsNonRoot"] is True
        assert template["pod"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert containers
        for container in containers:
            rights = template[container]["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["capabilities"] == {"drop": ["ALL"]}


def _templates_of_strimzi(overlay: tuple[Manifest, ...]) -> Iterator[tuple[Manifest, list[str]]]:
    """Templates of the pods, with the names of their containers."""
    for pool in of_kind(overlay, "KafkaNodePool"):
        yield pool["spec"]["template"], ["kafkaContainer"]
    for cluster in of_kind(overlay, "Kafka"):
        for part, containers in STRIMZI_PODS.items():
            if (declared := cluster["spec"].get(part)) is not None:
                there = [name for inner, name in containers.items() if not inner or inner in declared]
                yield declared["template"], there


def test_containers_are_probed_bounded_and_of_a_release(overlay: tuple[Manifest, ...]) -> None:
    for manifest in of_kind(overlay, "Deployment", "StatefulSet", "Job", "CronJob"):
        for container in containers_of(manifest):
            assert container["image"].count(":") == 1, container["image"]
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
            if not manifest["kind"].endswith("Job"):
                assert all(probe in container for probe in PROBES), manifest["metadata"]["name"]


def test_a_slow_start_is_not_ended(overlay: tuple[Manifest, ...]) -> None:
    """On two busy cores a first start of everything took more than two minutes, and was begun anew then."""
    for manifest in of_kind(overlay, "Deployment", "StatefulSet"):
        for container in containers_of(manifest):
            probe = container["startupProbe"]
            assert probe["periodSeconds"] * probe["failureThreshold"] >= 300, manifest["metadata"]["name"]


def test_replicas_are_spread(overlay: tuple[Manifest, ...]) -> None:
    for manifest in of_kind(overlay, "Deployment"):
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        constraints = pod(manifest)["topologySpreadConstraints"]
        assert {one["topologyKey"] for one in constraints} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
        for constraint in constraints:
            assert constraint["labelSelector"]["matchLabels"].items() <= labels.items()
            assert {*constraint["matchLabelKeys"]} - {"pod-template-hash"} <= labels.keys()


def test_no_secret_is_part_of_an_overlay_but_those_that_everybody_knows(
    overlay: tuple[Manifest, ...], tried_out: bool
) -> None:
    secrets = of_kind(overlay, "Secret")
    assert bool(secrets) is tried_out
    for secret in secrets:
        values = [base64.b64decode(value).decode() for value in secret["data"].values()]
        assert all("TryOutOnly" in value for value in values), secret["metadata"]["name"]

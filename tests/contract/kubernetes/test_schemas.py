"""Every overlay is what Kubernetes 1.33 takes, and what its restricted pod security lets run."""

import base64

import kubernetes_validate

from tests.support.kustomize import Manifest, containers_of, of_kind, pod

# Of operators that a cluster may have; their schemas are theirs.
CUSTOM = {"Kafka", "KafkaNodePool", "KafkaTopic", "KafkaUser", "ScaledObject", "TriggerAuthentication"}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def test_resources_fit_their_schemas(overlay: tuple[Manifest, ...]) -> None:
    known = [manifest for manifest in overlay if manifest["kind"] not in CUSTOM]
    assert len(known) > 30
    for manifest in known:
        kubernetes_validate.validate(manifest, "1.33", strict=True)


def test_nothing_is_there_twice(overlay: tuple[Manifest, ...]) -> None:
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in overlay]
    assert len(set(names)) == len(names)


def test_pods_are_restricted(overlay: tuple[Manifest, ...]) -> None:
    for manifest in of_kind(overlay, "Deployment", "Job", "StatefulSet"):
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


def test_containers_are_probed_bounded_and_of_a_release(overlay: tuple[Manifest, ...]) -> None:
    for manifest in of_kind(overlay, "Deployment", "StatefulSet", "Job"):
        for container in containers_of(manifest):
            assert container["image"].count(":") == 1, container["image"]
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
            if manifest["kind"] != "Job":
                assert all(probe in container for probe in PROBES), manifest["metadata"]["name"]


def test_replicas_are_spread(overlay: tuple[Manifest, ...]) -> None:
    for manifest in of_kind(overlay, "Deployment"):
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        constraints = pod(manifest)["topologySpreadConstraints"]
        assert {one["topologyKey"] for one in constraints} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
        for constraint in constraints:
            assert constraint["labelSelector"]["matchLabels"].items() <= labels.items()
            assert {*constraint["matchLabelKeys"]} - {"pod-template-hash"} <= labels.keys()


def test_no_secret_is_part_of_an_overlay_but_those_that_everybody_knows(
    overlay: tuple[Manifest, ...], dev: tuple[Manifest, ...]
) -> None:
    secrets = of_kind(overlay, "Secret")
    assert bool(secrets) is (overlay == dev)
    for secret in secrets:
        values = [base64.b64decode(value).decode() for value in secret["data"].values()]
        assert all("TryOutOnly" in value for value in values), secret["metadata"]["name"]

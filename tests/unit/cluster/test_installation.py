"""Reading what the cluster says of an installation, and volumes for its claims."""

import pytest

from tests.cluster.cluster import claims, complete, volume


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, True),
        # Not looked at since the last change.
        ({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, False),
        # An old pod is still there.
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, False),
        ({}, False),
    ],
)
def test_a_rollout_is_complete_when_all_replicas_are_new_and_ready(status: dict[str, int], expected: bool) -> None:
    assert complete(2, 2, status) is expected


def test_none_is_complete_without_a_pod() -> None:
    assert complete(0, 1, {"observedGeneration": 1})


def test_every_claim_gets_a_volume_of_its_own() -> None:
    template = {"metadata": {"name": "data"}}
    manifests = [
        {"kind": "StatefulSet", "metadata": {"name": "kafka"}, "spec": {"volumeClaimTemplates": [template]}},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "first-key"}},
        {"kind": "Deployment", "metadata": {"name": "gateway"}, "spec": {}},
    ]

    assert claims(manifests) == ["first-key", "data-kafka-0"]


def test_a_volume_is_kept_for_its_claim() -> None:
    made = volume("space", "data-kafka-0", "/srv/kafka")

    assert made["spec"]["claimRef"] == {"namespace": "space", "name": "data-kafka-0"}
    assert made["spec"]["local"] == {"path": "/srv/kafka"}

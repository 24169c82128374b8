"""The overlay `small` fits one node of 2 cores and 4 GB."""

from typing import Final

from tests.support.kustomize import Manifest, amount, containers_of, of_kind, pod

# What the node's own pods (DNS, network, an Ingress controller) and the kubelet take.
_CORES: Final = 2 - 0.5
_BYTES: Final = 4 * 10**9 - 700 * 2**20


def test_all_pods_are_scheduled_at_once(small: tuple[Manifest, ...]) -> None:
    running = of_kind(small, "Deployment", "StatefulSet", "Job")
    assert len(running) > 20
    assert all(manifest["spec"].get("replicas", 1) == 1 for manifest in running)
    assert sum(_requested(manifest, "cpu") for manifest in running) <= _CORES
    assert sum(_requested(manifest, "memory") for manifest in running) <= _BYTES


def test_nobody_scales_it_beyond_the_node(small: tuple[Manifest, ...]) -> None:
    assert not of_kind(small, "HorizontalPodAutoscaler", "ScaledObject")


def test_a_file_that_is_read_fits_the_process_that_reads_it(small: tuple[Manifest, ...]) -> None:
    (installation,) = [one for one in of_kind(small, "ConfigMap") if one["metadata"]["name"].startswith("installation")]
    readers = {
        "ingestion-streams": ("AES_INGESTION_PARSING_PROCESSES", "AES_INGESTION_PARSING_MEMORY_BYTES"),
        "artifacts-worker": ("AES_ARTIFACTS_TABLE_PROCESSES", "AES_ARTIFACTS_TABLE_MEMORY_BYTES"),
    }
    for manifest in of_kind(small, "Deployment"):
        if (variables := readers.pop(manifest["metadata"]["name"], None)) is not None:
            processes, most = (int(installation["data"][name]) for name in variables)
            (container,) = pod(manifest)["containers"]
            own = amount(container["resources"]["requests"]["memory"])
            # One more is for another company.
            assert own + (processes + 1) * most <= amount(container["resources"]["limits"]["memory"])
    assert not readers


def test_the_first_key_is_shown_before_its_container_ends(small: tuple[Manifest, ...]) -> None:
    """`exec` ends with the container, and what it has not shown by then is lost: the key can be taken once."""
    (job,) = [one for one in of_kind(small, "Job") if one["metadata"]["name"] == "first-key"]
    (container,) = pod(job)["containers"]
    _, _, afterwards = container["command"][-1].partition("done; ")

    assert int(afterwards.removeprefix("sleep ")) >= 30


def _requested(manifest: Manifest, resource: str) -> float:
    """The amount that the scheduler finds a place for: all containers at once, or one of those that run before them."""
    later = pod(manifest)["containers"]
    before = containers_of(manifest)[: -len(later)]
    together = sum(amount(one["resources"]["requests"][resource]) for one in later)
    return max([together, *(amount(one["resources"]["requests"][resource]) for one in before)])

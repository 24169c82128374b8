"""The scenarios of `tests/cluster` fit the manifests and the page."""

import yaml

from tests.cluster.images import OURS, PROGRAM_IMAGES, VERSION
from tests.cluster.scenarios import SCENARIOS, SMALL
from tests.cluster.scenarios.disruption import KILLED
from tests.cluster.scenarios.keda import SCALED, scaled_objects
from tests.cluster.settings import DNS
from tests.support.kustomize import ROOT, Manifest, containers_of, of_kind

_PAGE = ROOT.parents[1] / "docs" / "operations" / "kubernetes.md"


def test_the_page_names_every_scenario() -> None:
    table = _PAGE.read_text().split("## On a real node")[1]

    assert all(f"| `{name}` |" in table for name in SCENARIOS)


def test_they_use_what_the_overlay_has(small: tuple[Manifest, ...]) -> None:
    (namespace,) = of_kind(small, "Namespace")
    deployments = {one["metadata"]["name"] for one in of_kind(small, "Deployment")}

    assert namespace["metadata"]["name"] == SMALL.namespace
    assert {*KILLED, *SCALED} <= deployments


def test_all_images_of_the_project_are_built(small: tuple[Manifest, ...]) -> None:
    workloads = of_kind(small, "Deployment", "Job", "CronJob")
    used = {container["image"] for one in workloads for container in containers_of(one)}

    ours = {image for image in used if image.startswith("agent-execution-service/")}
    assert ours == {f"agent-execution-service/{name}:{VERSION}" for name in OURS}


def test_what_scales_is_the_overlays_own(keda: tuple[Manifest, ...]) -> None:
    made = {one["metadata"]["name"]: one for one in scaled_objects(keda, "space") if one["kind"] == "ScaledObject"}
    own = {one["metadata"]["name"]: one for one in of_kind(keda, "ScaledObject")}

    assert made.keys() == {*SCALED}
    for name, scaled in made.items():
        for trigger, original in zip(scaled["spec"]["triggers"], own[name]["spec"]["triggers"], strict=True):
            kept = {key: value for key, value in trigger["metadata"].items() if key != "bootstrapServers"}
            assert kept.items() <= original["metadata"].items()
        for bound in ("minReplicaCount", "maxReplicaCount"):
            assert scaled["spec"][bound] == own[name]["spec"][bound]


def test_dns_answers_where_pods_ask() -> None:
    manifests = yaml.safe_load_all((ROOT.parents[1] / "tests/cluster/manifests/coredns.yaml").read_text())
    (service,) = [one for one in manifests if one["kind"] == "Service"]
    (program,) = [image for image in PROGRAM_IMAGES if "coredns" in image]

    assert service["spec"]["clusterIP"] == DNS
    assert program == "localhost/coredns:1"

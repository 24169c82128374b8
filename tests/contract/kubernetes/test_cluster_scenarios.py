"""The scenarios of `tests/cluster` fit the manifests and tests/README.md."""

from pathlib import Path

import pytest

from deploy.k8s.rendering import ROOT
from tests.cluster.images import OURS, VERSION
from tests.cluster.scenarios import SCENARIOS, SMALL
from tests.cluster.scenarios.disruption import KILLED
from tests.cluster.scenarios.keda import KEDA
from tests.cluster.scenarios.overlays import DEV
from tests.support.kustomize import Manifest, amount, built_at, containers_of, of_kind, pod

_PAGE = ROOT.parents[1] / "tests" / "README.md"


def test_the_page_names_every_scenario() -> None:
    table = _PAGE.read_text().split("## On a real node")[1]

    assert all(f"| `{name}` |" in table for name in SCENARIOS)


def test_they_use_what_the_overlay_has(small: tuple[Manifest, ...]) -> None:
    (namespace,) = of_kind(small, "Namespace")
    deployments = {one["metadata"]["name"] for one in of_kind(small, "Deployment")}

    assert namespace["metadata"]["name"] == SMALL.namespace
    assert {*KILLED} <= deployments


_RUN = pytest.mark.parametrize(
    "directory", [SMALL.directory, DEV.directory, KEDA.directory], ids=lambda path: path.name
)


@_RUN
def test_all_images_of_the_project_are_built(directory: Path) -> None:
    workloads = of_kind(built_at(directory), "Deployment", "Job", "CronJob")
    used = {container["image"] for one in workloads for container in containers_of(one)}

    ours = {image for image in used if image.startswith("agent-execution-service/")}
    assert ours == {f"agent-execution-service/{name}:{VERSION}" for name in OURS}


@_RUN
def test_what_runs_has_room_on_two_cores(directory: Path) -> None:
    workloads = of_kind(built_at(directory), "Deployment", "StatefulSet", "Job")
    cores = [amount(one["resources"]["requests"]["cpu"]) for each in workloads for one in pod(each)["containers"]]

    # Beside the node's own pods, KEDA's among them.
    assert sum(cores) <= 2 - 0.4

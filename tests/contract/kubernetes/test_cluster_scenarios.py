"""The scenarios of `tests/cluster` fit the manifests and tests/README.md."""

from pathlib import Path

import pytest
import yaml

from deploy.k8s.rendering import ROOT
from tests.cluster.__main__ import parsed
from tests.cluster.images import OURS, PROGRAM_IMAGES, VERSION
from tests.cluster.scenarios import SCENARIOS, SMALL
from tests.cluster.scenarios.disruption import KILLED
from tests.cluster.scenarios.keda import KEDA
from tests.cluster.scenarios.overlays import DEV
from tests.cluster.settings import DNS
from tests.support.kustomize import Manifest, amount, built_at, containers_of, of_kind, pod, shared_settings

_PAGE = ROOT.parents[1] / "tests" / "README.md"


def test_the_page_names_every_scenario() -> None:
    table = _PAGE.read_text().split("## On a real node")[1]

    assert all(f"| `{name}` |" in table for name in SCENARIOS)


def test_none_has_to_be_named() -> None:
    assert parsed([]).scenarios == []
    assert parsed(["--stop"]).stop
    assert parsed(["keda"]).scenarios == ["small", "keda"]


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


def test_what_scales_is_the_overlays_own(keda: tuple[Manifest, ...]) -> None:
    made = _by_name(of_kind(built_at(KEDA.directory), "ScaledObject", "TriggerAuthentication"))
    own = _by_name(of_kind(keda, "ScaledObject", "TriggerAuthentication"))

    quicker = {"cooldownPeriod", "advanced"}
    assert made.keys() == own.keys()
    for name, one in made.items():
        assert _without(one["spec"], quicker) == _without(own[name]["spec"], quicker)


def test_strimzis_part_is_what_the_overlay_expects() -> None:
    manifests = built_at(KEDA.directory)
    mounted = {
        volume["secret"]["secretName"]
        for one in of_kind(manifests, "Deployment", "StatefulSet")
        for volume in pod(one).get("volumes", [])
        if "secret" in volume
    }
    (server,) = [one for one in of_kind(manifests, "StatefulSet") if one["metadata"]["name"] == "kafka"]
    listeners = {variable["name"]: variable.get("value", "") for variable in containers_of(server)[0]["env"]}

    assert mounted == {"aes-cluster-ca-cert", "kafka-server"}
    servers = shared_settings(manifests)["data"]["AES_KAFKA_BOOTSTRAP_SERVERS"]
    host, port = servers.split(":")
    assert f"TLS://{host}.{KEDA.namespace}.svc:{port}" in listeners["KAFKA_ADVERTISED_LISTENERS"]


def test_dns_answers_where_pods_ask() -> None:
    manifests = yaml.safe_load_all((ROOT.parents[1] / "tests/cluster/manifests/coredns.yaml").read_text())
    (service,) = [one for one in manifests if one["kind"] == "Service"]
    (program,) = [image for image in PROGRAM_IMAGES if "coredns" in image]

    assert service["spec"]["clusterIP"] == DNS
    assert program == "localhost/coredns:1"


def _by_name(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(one["kind"], one["metadata"]["name"]): one for one in manifests}


def _without(specification: Manifest, names: set[str]) -> Manifest:
    return {name: value for name, value in specification.items() if name not in names}

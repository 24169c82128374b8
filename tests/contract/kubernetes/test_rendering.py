"""Manifests as they are rendered: groups, the small overlay, and their page."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest
import yaml
from pydantic import SecretStr

from deploy.k8s.rendering import KUSTOMIZE, RENDERINGS, ROOT, file_of, heading, rendered
from libs.service_defaults import Service
from services.artifacts.bootstrap import build as build_artifacts
from services.artifacts.settings import ArtifactsSettings
from services.ingestion.bootstrap import build as build_ingestion
from services.ingestion.settings import IngestionSettings
from tests.contract.kustomize import Manifest, amount, built_at, containers_of, of_kind, pod, shared_settings
from tests.servers.go import cached

_COMMAND = "run: python -m deploy.k8s.rendering"


@pytest.mark.parametrize("name", RENDERINGS)
def test_the_rendering_is_of_the_sources_as_they_are(name: str) -> None:
    assert file_of(name).read_text().startswith(heading(name)), _COMMAND


@pytest.mark.parametrize("name", RENDERINGS)
def test_kustomize_renders_the_same(name: str) -> None:
    assert file_of(name).read_text() == heading(name) + rendered(name, cached(KUSTOMIZE)), _COMMAND


def test_every_overlay_is_rendered_and_nothing_else_is_committed() -> None:
    overlays = {path.parent.name for path in ROOT.glob("overlays/*/kustomization.yaml")}

    assert overlays == RENDERINGS.keys() - {"monitoring"}
    assert {*file_of("dev").parent.iterdir()} == {*map(file_of, RENDERINGS)}


async def _services(directory: Path) -> list[Service]:
    """As they are built for any role; nothing of them is started."""
    given = {
        "signing_key": SecretStr("k" * 40),
        "database_url": SecretStr("postgresql://nobody@127.0.0.1/nothing"),
        "objects_url": SecretStr(f"file:{directory}"),
    }
    return [build_artifacts(ArtifactsSettings(**given)), build_ingestion(IngestionSettings(**given))]


async def test_every_group_is_watched(keda: tuple[Manifest, ...], tmp_path: Path) -> None:
    watched = {scaler["metadata"]["name"]: _lags(scaler) for scaler in of_kind(keda, "ScaledObject")}
    for service in await _services(tmp_path):
        consumed = {(f"{service.name}-commands", topic) for topic in service.commands.topics}
        consumed |= {
            (f"{service.name}-{purpose}", topic)
            for purpose, router in service.consumers.routers.items()
            for topic in router.topics
        }
        assert len(consumed) > 1
        assert watched[f"{service.name}-worker"] == consumed


def _lags(scaler: Manifest) -> set[tuple[str, str]]:
    triggers = [trigger["metadata"] for trigger in scaler["spec"]["triggers"] if trigger["type"] == "kafka"]
    return {(trigger["consumerGroup"], trigger["topic"]) for trigger in triggers}


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


_PAGE = ROOT.parents[1] / "docs" / "operate" / "kubernetes.md"


@pytest.fixture
def own(tmp_path: Path) -> tuple[Manifest, ...]:
    """Renders it as it stands there."""
    (example,) = re.findall(r"^ +resources: \[\.\./production\]\n(?: +.*\n)+", _PAGE.read_text(), re.MULTILINE)
    overlay = yaml.safe_load(dedent(example))
    # kustomize takes relative paths only.
    above = "../" * len(tmp_path.parents)
    overlay["resources"] = [above + str(ROOT.relative_to("/") / "overlays" / "production")]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return built_at(tmp_path)


def test_scalers_that_keda_replaces_are_deleted_first(
    production: tuple[Manifest, ...], keda: tuple[Manifest, ...]
) -> None:
    (deleted,) = re.findall(r"kubectl -n NS delete hpa (.*)", _PAGE.read_text())
    before, after = (
        {one["metadata"]["name"] for one in of_kind(overlay, "HorizontalPodAutoscaler")}
        for overlay in (production, keda)
    )

    assert {*deleted.split()} == before - after


def test_the_host_is_set_everywhere(own: tuple[Manifest, ...]) -> None:
    (ingress,) = of_kind(own, "Ingress")
    (host,) = {rule["host"] for rule in ingress["spec"]["rules"]}

    assert host == "agents.your.example"
    assert ingress["spec"]["tls"][0]["hosts"] == [host]
    assert shared_settings(own)["data"]["AES_ARTIFACTS_PUBLIC_URL"] == f"https://{host}"
    assert not [one for one in own if "agents.example.com" in yaml.safe_dump(one)]


def test_images_come_from_the_registry_that_is_named(own: tuple[Manifest, ...]) -> None:
    images = {container["image"] for one in of_kind(own, "Deployment") for container in containers_of(one)}

    assert "registry.example.com/agents/gateway:0.1.0" in images
    assert not any(image.startswith("agent-execution-service/gateway") for image in images)

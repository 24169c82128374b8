"""The overlay that docs/operate/kubernetes.md shows does what the page says of it."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from deploy.k8s.rendering import ROOT
from tests.support.kustomize import Manifest, built_at, containers_of, of_kind, shared_settings

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

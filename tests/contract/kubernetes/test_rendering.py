"""The committed renderings are what kustomize makes of the manifests as they are now."""

import shutil
from pathlib import Path

import pytest

from deploy.k8s import rendering
from deploy.k8s.rendering import KUSTOMIZE, RENDERINGS, ROOT, digest, file_of, heading, rendered
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


@pytest.mark.parametrize(
    ("file", "concerned"),
    [
        ("k8s/base/kustomization.yaml", {*RENDERINGS}),
        ("k8s/base/patches/workload.yaml", {*RENDERINGS}),
        ("k8s/base/runtime/workloads.yaml", {*RENDERINGS}),
        ("k8s/overlays/production/namespace.yaml", {"keda", "production"}),
        ("k8s/components/tracing/kustomization.yaml", {"monitoring"}),
        ("compose/databases.sh", {"dev", "small"}),
    ],
)
def test_a_changed_source_is_noticed(
    file: str, concerned: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "deploy"
    for folder in ("k8s", "compose"):
        shutil.copytree(ROOT.parent / folder, copy / folder)
    monkeypatch.setattr(rendering, "ROOT", copy / "k8s")
    monkeypatch.setattr(rendering, "_PROJECT", tmp_path)
    before = {name: digest(directories) for name, directories in RENDERINGS.items()}

    with (copy / file).open("a") as changed:
        changed.write("# changed\n")

    after = {name: digest(directories) for name, directories in RENDERINGS.items()}
    assert {name for name in RENDERINGS if before[name] != after[name]} == concerned

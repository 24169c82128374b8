"""Renders the manifests as `kubectl apply -k` would; the program is built once, kept in the user's cache directory."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy.local.go_programs import built

VERSION = "5.7.1"
ROOT = Path(__file__).parents[2] / "deploy" / "k8s"
_MODULE = "sigs.k8s.io/kustomize/kustomize/v5"

Manifest = dict[str, Any]
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def binary() -> Path:
    """The program; built first where it is missing, which takes half a minute. Raises NotBuilt."""
    return built("kustomize", _MODULE, VERSION, directory="kustomize", called="kustomize")


@cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    return built_at(ROOT / "overlays" / overlay)


def with_components(directory: Path, *names: str) -> tuple[Manifest, ...]:
    """The base with these components on top; ``directory`` is an empty one."""
    # kustomize takes relative paths only.
    root = "../" * len(directory.parents) + str(ROOT.relative_to("/"))
    components = [f"{root}/components/{name}" for name in names]
    (directory / "kustomization.yaml").write_text(
        yaml.safe_dump({"resources": [f"{root}/base"], "components": components})
    )
    return built_at(directory)


@cache
def built_at(directory: Path) -> tuple[Manifest, ...]:
    """Renders the kustomization in `directory`."""
    outcome = subprocess.run([str(binary()), "build", str(directory)], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    # The parser in C, which takes a tenth of the time.
    return tuple(yaml.load_all(outcome.stdout, yaml.CSafeLoader))


def of_kind(manifests: tuple[Manifest, ...], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def pod(manifest: Manifest) -> Manifest:
    """The pod's specification of a Deployment, a StatefulSet, a Job or a CronJob."""
    job = manifest["spec"].get("jobTemplate", manifest)
    found: Manifest = job["spec"]["template"]["spec"]
    return found


def containers_of(manifest: Manifest) -> list[Manifest]:
    """All of a pod, those that run before the others first."""
    return [*pod(manifest).get("initContainers", []), *pod(manifest)["containers"]]


def shared_settings(manifests: tuple[Manifest, ...]) -> Manifest:
    """The ConfigMap that all services read."""
    (found,) = [one for one in of_kind(manifests, "ConfigMap") if one["metadata"]["name"].startswith("installation-")]
    return found


def amount(text: str) -> float:
    """The bytes or cores of a request or limit."""
    if text.endswith("m"):
        return int(text.removesuffix("m")) / 1000
    return int(text[:-2]) * _UNITS[text[-2:]] if text[-2:] in _UNITS else float(text)

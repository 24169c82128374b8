"""The manifests, as `kubectl apply -k` would render them."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy.k8s import rendering
from deploy.k8s.rendering import KUSTOMIZE
from tests.servers.go import cached

Manifest = dict[str, Any]
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@cache
def rendered(name: str) -> tuple[Manifest, ...]:
    """A committed rendering."""
    return _parsed(rendering.file_of(name).read_text())


def built_at(directory: Path) -> tuple[Manifest, ...]:
    """Renders the kustomization in `directory`; skips the test if kustomize hasn't been built."""
    return _built_at(directory, cached(KUSTOMIZE))


@cache
def _built_at(directory: Path, kustomize: Path) -> tuple[Manifest, ...]:
    return _parsed(rendering.build(directory, kustomize))


def _parsed(text: str) -> tuple[Manifest, ...]:
    # The parser in C, which takes a tenth of the time.
    return tuple(yaml.load_all(text, yaml.CSafeLoader))


def of_kind(manifests: tuple[Manifest, ...], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def pod(manifest: Manifest) -> Manifest:
    """The pod's specification of a Deployment, a StatefulSet, a Job or a CronJob."""
    job = manifest["spec"].get("jobTemplate", manifest)
    return job["spec"]["template"]["spec"]


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

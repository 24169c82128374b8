"""Renders the manifests as `kubectl apply -k` would; the program is built once, kept in the user's cache directory."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

VERSION = "5.7.1"
ROOT = Path(__file__).parents[2] / "deploy" / "k8s"
_MODULE = f"sigs.k8s.io/kustomize/kustomize/v5@v{VERSION}"

Manifest = dict[str, Any]


class NoKustomize(Exception):
    """Why there is none here."""


def binary() -> Path:
    """The program; built first where it is missing, which takes half a minute."""
    directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aes" / f"kustomize-{VERSION}"
    if (built := directory / "kustomize").exists():
        return built
    go = shutil.which("go")
    if go is None:
        raise NoKustomize("kustomize has to be built, and Go is not installed")
    directory.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(directory)}
    outcome = subprocess.run([go, "install", _MODULE], env=environment, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise NoKustomize(f"kustomize could not be built: {outcome.stderr.strip()[-500:]}")
    return built


@cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    command = [str(binary()), "build", str(ROOT / "overlays" / overlay)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return tuple(yaml.safe_load_all(outcome.stdout))


def of_kind(manifests: tuple[Manifest, ...], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def pod(manifest: Manifest) -> Manifest:
    """The pod's specification of a Deployment or a Job."""
    found: Manifest = manifest["spec"]["template"]["spec"]
    return found

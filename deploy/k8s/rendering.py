"""Renders the manifests with kustomize, for reviews and tests: `python -m deploy.k8s.rendering`."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.images.fallback_images.go_programs import GoProgram, NotBuilt, built

KUSTOMIZE: Final = GoProgram("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", "5.7.1")
ROOT: Final = Path(__file__).parent
RENDERINGS: Final[dict[str, list[str]]] = {
    **{name: [f"overlays/{name}"] for name in ("dev", "keda", "managed-kafka", "production", "small")},
    "monitoring": ["base", "components/prometheus-operator", "components/tracing"],
}
"""Overlays to render and the components to add to them, by name."""
_PROJECT: Final = ROOT.parents[1]


def file_of(name: str) -> Path:
    return ROOT / "rendered" / f"{name}.yaml"


def heading(name: str) -> str:
    """Returns a header with a hash of the sources, so that a test without kustomize can detect outdated output."""
    return (
        f"# Generated from {', '.join(RENDERINGS[name])} by: python -m deploy.k8s.rendering\n"
        f"# Sources: sha256 {digest(RENDERINGS[name])}\n"
    )


def digest(directories: list[str]) -> str:
    """Returns a hash of all files that the kustomizations use."""
    found: set[Path] = set()
    for directory in directories:
        _add_sources(ROOT / directory, found)
    hashes = [f"{path.relative_to(_PROJECT)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(found)]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _add_sources(directory: Path, found: set[Path]) -> None:
    """Adds the kustomization and all files that it uses, directly or indirectly, to ``found``."""
    kustomization = directory / "kustomization.yaml"
    if kustomization in found:
        return
    found.add(kustomization)
    for text in _texts(yaml.safe_load(kustomization.read_text())):
        if "\n" in text:
            continue  # a patch
        # Generators can specify files as `key=file`.
        path = (directory / text.rpartition("=")[2]).resolve()
        if not path.is_relative_to(_PROJECT):
            continue
        if (path / "kustomization.yaml").is_file():
            _add_sources(path, found)
        elif path.is_file():
            found.add(path)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def rendered(name: str, kustomize: Path) -> str:
    base, *components = RENDERINGS[name]
    if not components:
        return build(ROOT / base, kustomize)
    with tempfile.TemporaryDirectory() as directory:
        # kustomize only accepts relative paths.
        above = os.path.relpath(ROOT, Path(directory).resolve())
        kustomization = {"resources": [f"{above}/{base}"], "components": [f"{above}/{each}" for each in components]}
        Path(directory, "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return build(Path(directory), kustomize)


def build(directory: Path, kustomize: Path) -> str:
    """Renders the kustomization as `kubectl apply -k` would."""
    command = [str(kustomize), "build", str(directory)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if outcome.returncode != 0:
        raise ValueError(f"kustomize failed on {directory}: {outcome.stderr.strip()}")
    return outcome.stdout


def main() -> None:
    try:
        kustomize = built(KUSTOMIZE)
    except NotBuilt as reason:
        sys.exit(str(reason))
    for name in RENDERINGS:
        file_of(name).parent.mkdir(exist_ok=True)
        file_of(name).write_text(heading(name) + rendered(name, kustomize))


if __name__ == "__main__":
    main()

from pathlib import Path

import pytest

from deploy.local.go_programs import NotBuilt
from tests.support.kustomize import Manifest, binary, rendered, with_components


@pytest.fixture(params=["dev", "small", "production", "keda", "managed-kafka"])
def overlay(request: pytest.FixtureRequest) -> tuple[Manifest, ...]:
    """All resources of each overlay in turn."""
    return manifests(request.param)


@pytest.fixture
def production() -> tuple[Manifest, ...]:
    return manifests("production")


@pytest.fixture
def dev() -> tuple[Manifest, ...]:
    return manifests("dev")


@pytest.fixture
def small() -> tuple[Manifest, ...]:
    return manifests("small")


@pytest.fixture
def tried_out(overlay: tuple[Manifest, ...], dev: tuple[Manifest, ...], small: tuple[Manifest, ...]) -> bool:
    """Whether the overlay brings its servers and its secrets along."""
    return overlay in (dev, small)


@pytest.fixture
def keda() -> tuple[Manifest, ...]:
    return manifests("keda")


@pytest.fixture
def monitored(tmp_path: Path) -> tuple[Manifest, ...]:
    """Renders the Prometheus operator's resources beside the base."""
    try:
        return with_components(tmp_path, "prometheus-operator")
    except NotBuilt as reason:
        pytest.skip(str(reason))


def manifests(name: str) -> tuple[Manifest, ...]:
    try:
        binary()
    except NotBuilt as reason:
        pytest.skip(str(reason))
    return rendered(name)

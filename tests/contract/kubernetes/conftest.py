import pytest

from deploy.local.go_programs import NotBuilt
from tests.support.kustomize import Manifest, binary, rendered


@pytest.fixture(params=["dev", "production", "keda", "managed-kafka"])
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
def keda() -> tuple[Manifest, ...]:
    return manifests("keda")


def manifests(name: str) -> tuple[Manifest, ...]:
    try:
        binary()
    except NotBuilt as reason:
        pytest.skip(str(reason))
    return rendered(name)

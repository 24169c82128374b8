import pytest

from tests.contract.kustomize import Manifest, rendered


@pytest.fixture(params=["dev", "small", "production", "keda", "managed-kafka"])
def overlay(request: pytest.FixtureRequest) -> tuple[Manifest, ...]:
    """All resources of each overlay in turn."""
    return rendered(request.param)


@pytest.fixture
def production() -> tuple[Manifest, ...]:
    return rendered("production")


@pytest.fixture
def dev() -> tuple[Manifest, ...]:
    return rendered("dev")


@pytest.fixture
def small() -> tuple[Manifest, ...]:
    return rendered("small")


@pytest.fixture
def tried_out(overlay: tuple[Manifest, ...], dev: tuple[Manifest, ...], small: tuple[Manifest, ...]) -> bool:
    """Whether the overlay brings its servers and its secrets along."""
    return overlay in (dev, small)


@pytest.fixture
def keda() -> tuple[Manifest, ...]:
    return rendered("keda")


@pytest.fixture
def monitored() -> tuple[Manifest, ...]:
    """The base with the Prometheus operator's resources and traces."""
    return rendered("monitoring")

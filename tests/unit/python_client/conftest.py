from typing import Any

import pytest

from tests.support.client_service import Awaiting, FakeService, asynchronous, blocking


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture(params=["blocking", "asynchronous"])
def client(request: pytest.FixtureRequest, service: FakeService) -> Any:
    """Both clients, one after the other."""
    return blocking(service) if request.param == "blocking" else Awaiting(asynchronous(service))

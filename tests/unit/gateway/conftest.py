from collections.abc import AsyncIterator

import pytest

from tests.support.gateway import Gateway, gateway


@pytest.fixture
async def public() -> AsyncIterator[Gateway]:
    async with gateway() as running:
        yield running

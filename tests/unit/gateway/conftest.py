from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway import Gateway, gateway

if TYPE_CHECKING:
    from openai import AsyncOpenAI


@pytest.fixture
async def public() -> AsyncIterator[Gateway]:
    async with gateway() as running:
        yield running


@pytest.fixture
async def openai_client(public: Gateway) -> AsyncIterator[AsyncOpenAI]:
    # Imported where it's needed, since that takes seconds.
    from openai import AsyncOpenAI

    where = {"api_key": public.client.headers["x-api-key"], "base_url": "http://localhost/openai/v1"}
    async with AsyncOpenAI(**where, http_client=public.protocol("/openai/v1"), max_retries=0) as client:
        yield client

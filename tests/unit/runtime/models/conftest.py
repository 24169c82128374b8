from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import aiohttp
import pytest

from libs.retry import RetryPolicy
from services.runtime.adapters.models.failures import MODEL_RETRIES
from services.runtime.adapters.models.known_providers import CompatibleProvider, NativeOutput
from services.runtime.adapters.models.openai_compatible import OpenAICompatible
from services.runtime.adapters.models.providers import new_session
from tests.servers.model_stub import ModelStub

SECRET = "sk-live-0123456789abcdef"


@pytest.fixture
async def stub() -> AsyncIterator[ModelStub]:
    stub = ModelStub(keep=True)
    await stub.start()
    yield stub
    await stub.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with new_session() as session:
        yield session


@pytest.fixture
def waits() -> list[float]:
    """The seconds that retries waited."""
    return []


@pytest.fixture
def retry(waits: list[float]) -> RetryPolicy:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return replace(MODEL_RETRIES, sleep=sleep, jitter=lambda: 1.0)


@pytest.fixture
def lean(stub: ModelStub, session: aiohttp.ClientSession, retry: RetryPolicy) -> Callable[..., OpenAICompatible]:
    def make(base_url: str = stub.base_url, native_output: NativeOutput = "never", **limits: float) -> OpenAICompatible:
        provider = CompatibleProvider("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY", native_output=native_output)
        return OpenAICompatible(provider, base_url, SECRET, session, retry, **limits)  # type: ignore[arg-type]

    return make

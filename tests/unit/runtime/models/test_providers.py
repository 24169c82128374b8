"""Providers of models: which one is chosen, and what their failures mean."""

import subprocess
import sys
from datetime import UTC, datetime

import aiohttp
import pytest

from libs.retry import RetryPolicy
from services.runtime.adapters.models.failures import redact, retry_after_seconds
from services.runtime.adapters.models.providers import ModelProviders, model_providers
from services.runtime.domain.conversation import ImagePart, UserMessage
from services.runtime.domain.models import ModelInfo, ModelNotConfigured, ModelRequest, ModelUnknown, VisionNotSupported
from tests.servers.model_stub import TEXT, ModelStub
from tests.support.agent_fakes import said
from tests.support.waiting import WITHIN


@pytest.fixture
def providers(stub: ModelStub, session: aiohttp.ClientSession, retry: RetryPolicy) -> ModelProviders:
    environ = {"OPENAI_BASE_URL": stub.base_url, "VLLM_BASE_URL": stub.base_url, "GROQ_API_KEY": "x"}
    return model_providers(environ, session, retry=retry)


async def test_a_request_goes_to_its_provider(providers: ModelProviders, stub: ModelStub) -> None:
    for model in ("openai:stub", "vllm:stub"):
        answer = await providers.answer(ModelRequest(model, "", (said("Hi"),)))
        assert answer.text == TEXT
    assert "Authorization" not in stub.headers[0]
    builtin = await providers.answer(ModelRequest("builtin:extractive", "", (said("Hi"),)))
    assert builtin.text.startswith("Hello.")


async def test_the_catalogue_lists_configured_providers(providers: ModelProviders) -> None:
    configured = {info.name: info.configured for info in providers.providers()}
    named = {name: configured[name] for name in ("builtin", "openai", "groq", "anthropic", "openrouter")}
    assert named == {"builtin": True, "openai": True, "groq": True, "anthropic": False, "openrouter": False}
    assert providers.providers()[0].to_json() == {
        "provider": "builtin",
        "configured": True,
        "any_name": False,
        "models": [{"name": "builtin:extractive", "capabilities": {"vision": False, "tools": True}}],
    }


async def test_names_are_checked(providers: ModelProviders) -> None:
    assert providers.require("openai:gpt-4o") == ModelInfo("openai:gpt-4o", vision=True)
    assert providers.require("openai:something-new") is None
    for unknown in ("gpt-4o", "nobody:x", "openai:", ":x", "builtin:other"):
        with pytest.raises(ModelUnknown):
            providers.require(unknown)
    with pytest.raises(ModelNotConfigured, match="set ANTHROPIC_API_KEY"):
        providers.require("anthropic:claude-opus-5-5")


async def test_images_need_a_model_that_sees(providers: ModelProviders, stub: ModelStub) -> None:
    picture = UserMessage((ImagePart("https://example.com/a.png"),))
    for blind in ("builtin:extractive", "openai:gpt-3.5-turbo"):
        with pytest.raises(VisionNotSupported):
            await providers.answer(ModelRequest(blind, "", (picture,)))
    assert stub.requests == []
    await providers.answer(ModelRequest("openai:stub", "", (picture,)))
    assert len(stub.requests) == 1


def test_a_start_imports_no_sdk_that_only_some_turns_need() -> None:
    program = (
        "import sys, services.runtime.bootstrap;"
        "sys.exit(any(name.startswith(('pydantic_ai', 'openai', 'mcp', 'xlsxwriter')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=WITHIN).returncode == 0


def test_options_that_a_provider_would_ignore_are_named(providers: ModelProviders) -> None:
    options = ["stop", "tool_choice", "parallel_tool_calls"]
    assert providers.unsupported("openai:x", options) == []
    assert providers.unsupported("builtin:extractive", options) == ["tool_choice"]
    assert providers.unsupported("google:gemini-x", options) == ["parallel_tool_calls"]


def test_retry_after() -> None:
    now = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
    for headers, seconds in (
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:05 GMT"}, 5.0),
        ({"retry-after": "Fri, 20 Nov 2026 09:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
    ):
        assert retry_after_seconds(headers, now) == seconds


def test_messages_hold_no_secret() -> None:
    for message in (
        "Incorrect API key provided: sk-proj-abcdef123456.",
        "bad key hidden-value",
        "Authorization: Bearer hidden-value",
        "GET https://host/v1?key=hidden-value failed",
        "proxy https://user:hidden-value@host",
        "AIzaSyA1234567890abcdef is not valid",
        "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ):
        cleaned = redact(message, ["hidden-value"])
        assert "***" in cleaned
        assert not [secret for secret in ("hidden-value", "abcdef", "eyJ") if secret in cleaned]


def test_messages_are_one_short_line_and_ordinary_words_stay() -> None:
    assert redact("a\n b" + "c" * 1000).startswith("a bccc")
    assert len(redact("x" * 1000)) == 500
    message = "The model `gpt-6-luna` does not exist or you do not have access to it."
    assert redact(message) == message

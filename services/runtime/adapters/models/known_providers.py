"""The known providers, with their addresses, environment variables, and some of their models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from services.runtime.domain.models import ModelInfo


def _models(provider: str, seeing: str = "", blind: str = "") -> tuple[ModelInfo, ...]:
    return tuple(
        ModelInfo(f"{provider}:{name}", vision)
        for names, vision in ((seeing, True), (blind, False))
        for name in names.split()
    )


NativeOutput = Literal["never", "without_tools", "always"]
"""When to send the output schema as the response format. Some servers then answer instead of calling tools."""


@dataclass(frozen=True, slots=True)
class CompatibleProvider:
    """An OpenAI-compatible server. It's configured if its key is set, or its address if it doesn't need a key."""

    name: str
    address_variable: str
    key_variable: str
    address: str | None = None
    models: tuple[ModelInfo, ...] = ()
    native_output: NativeOutput = "never"

    def settings(self, environ: Mapping[str, str]) -> tuple[str, str | None] | None:
        """Returns the base URL and key, or None if the server isn't configured."""
        given, key = environ.get(self.address_variable), environ.get(self.key_variable) or None
        address = given or self.address
        return (address, key) if address and (given or key) else None


@dataclass(frozen=True, slots=True)
class OtherProvider:
    """A provider called through pydantic-ai. It's configured if any of the environment `variables` is set.

    `wants_bytes` is set if the provider can't fetch images by URL. `ignores` lists unsupported turn options.
    """

    name: str
    variables: tuple[str, ...]
    models: tuple[ModelInfo, ...] = ()
    wants_bytes: bool = False
    ignores: frozenset[str] = frozenset()


COMPATIBLE = (
    CompatibleProvider(
        "openai",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "https://api.openai.com/v1",
        _models(
            "openai",
            seeing="gpt-6.1-sol gpt-6.1-terra gpt-6-astra gpt-6-luna gpt-5.6-sol gpt-5.6-terra gpt-5.6-luna "
            "gpt-5 gpt-5-mini gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini",
            blind="gpt-4 gpt-3.5-turbo",
        ),
        native_output="always",
    ),
    CompatibleProvider("openrouter", "OPENROUTER_BASE_URL", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1"),
    CompatibleProvider(
        "deepseek",
        "DEEPSEEK_BASE_URL",
        "DEEPSEEK_API_KEY",
        "https://api.deepseek.com/v1",
        _models("deepseek", blind="deepseek-flash deepseek-v4-pro"),
    ),
    CompatibleProvider("ollama", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", native_output="without_tools"),
    CompatibleProvider("vllm", "VLLM_BASE_URL", "VLLM_API_KEY", native_output="without_tools"),
)

OTHERS = (
    OtherProvider(
        "anthropic",
        ("ANTHROPIC_API_KEY",),
        _models("anthropic", "claude-opus-5-5 claude-sonnet-5-5 claude-haiku-5-5 claude-opus-4-8 claude-haiku-4-5"),
    ),
    OtherProvider(
        "google",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        _models("google", "gemini-4-argon gemini-4-carbon gemini-3.8-flash gemini-3.1-pro-preview"),
        wants_bytes=True,
        ignores=frozenset({"parallel_tool_calls"}),
    ),
    OtherProvider("groq", ("GROQ_API_KEY",), _models("groq", blind="openai/gpt-oss-120b openai/gpt-oss-20b")),
    OtherProvider(
        "mistral",
        ("MISTRAL_API_KEY",),
        _models("mistral", "mistral-large-latest mistral-medium-latest mistral-small-latest", blind="codestral-latest"),
    ),
    OtherProvider("cerebras", ("CEREBRAS_API_KEY",)),
    OtherProvider("moonshotai", ("MOONSHOTAI_API_KEY",)),
    OtherProvider("together", ("TOGETHER_API_KEY",)),
    OtherProvider("fireworks", ("FIREWORKS_API_KEY",)),
)

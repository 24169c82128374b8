"""Finds models by name and lists them by provider."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import aiohttp

from libs.outbound import GuardedResolver
from libs.retry import RetryPolicy
from services.runtime.adapters.models.extractive.model import ExtractiveModel
from services.runtime.adapters.models.images import ImageFetching
from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS
from services.runtime.adapters.models.openai_compatible import OpenAICompatible
from services.runtime.adapters.models.pydantic_ai_direct import PydanticAIDirect
from services.runtime.adapters.models.reasoning import ReasoningApart
from services.runtime.adapters.models.tool_names import ProviderToolNames
from services.runtime.domain.conversation import ModelAnswer, UserMessage
from services.runtime.domain.models import (
    ChatModel,
    ModelInfo,
    ModelNotConfigured,
    ModelRequest,
    ModelUnknown,
    OnText,
    ProviderInfo,
    VisionNotSupported,
)

BUILTIN = ProviderInfo("builtin", True, (ModelInfo("builtin:extractive", vision=False),), any_name=False)


@dataclass(frozen=True, slots=True)
class Provider:
    """A model provider. If it isn't configured, `model` is None and `remedy` says how to configure it.

    `ignores` lists the turn options that have no effect.
    """

    info: ProviderInfo
    model: ChatModel | None
    remedy: str = ""
    ignores: frozenset[str] = frozenset()


class ModelProviders:
    """Implements ChatModel and ModelCatalogue for the models of all providers."""

    def __init__(self, *providers: Provider) -> None:
        self._providers = {provider.info.name: provider for provider in providers}

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        if any(isinstance(message, UserMessage) and message.has_image for message in request.messages):
            self.require_vision(request.model)
        return await self._model(request.model).answer(request, on_text)

    def providers(self) -> tuple[ProviderInfo, ...]:
        return tuple(provider.info for provider in self._providers.values())

    def require(self, model: str) -> ModelInfo | None:
        self._model(model)
        info = self._provider(model).info
        known = next((known for known in info.models if known.name == model), None)
        if known is None and not info.any_name:
            names = ", ".join(known.name for known in info.models)
            raise ModelUnknown(f"Unknown model {model!r}. Use one of: {names}.")
        return known

    def require_vision(self, model: str) -> None:
        known = self.require(model)
        if known is not None and not known.vision:
            raise VisionNotSupported(
                f"The model {model!r} only accepts text. Remove the image, or choose another model."
            )

    def unsupported(self, model: str, options: Collection[str]) -> list[str]:
        return [option for option in options if option in self._provider(model).ignores]

    def _provider(self, model: str) -> Provider:
        prefix, separator, name = model.partition(":")
        if not separator or not prefix or not name:
            raise ModelUnknown(f"Invalid model name {model!r}. Use the form provider:name.")
        provider = self._providers.get(prefix)
        if provider is None:
            raise ModelUnknown(f"Unknown model provider {prefix!r}. Use one of: {', '.join(self._providers)}.")
        return provider

    def _model(self, model: str) -> ChatModel:
        provider = self._provider(model)
        if provider.model is None:
            raise ModelNotConfigured(f"The model provider {provider.info.name!r} isn't configured: {provider.remedy}.")
        return provider.model


def model_providers(
    environ: Mapping[str, str],
    session: aiohttp.ClientSession,
    *,
    builtin_delay: float = 0.0,
    retry: RetryPolicy | None = None,
    resolver: GuardedResolver | None = None,
) -> ModelProviders:
    """Creates all known providers from their usual environment variables, such as `OPENAI_API_KEY`.

    `builtin_delay` is in seconds. The caller closes `session`.
    """
    # The built-in model chooses its tool calls by fixed rules.
    providers = [Provider(BUILTIN, ExtractiveModel(delay=builtin_delay), ignores=frozenset({"tool_choice"}))]
    for known in COMPATIBLE:
        settings = known.settings(environ)
        model = settings and _adapted(OpenAICompatible(known, *settings, session, retry))
        remedy = f"set {known.key_variable}" if known.address else f"set {known.address_variable}"
        providers.append(Provider(ProviderInfo(known.name, settings is not None, known.models), model, remedy))
    for other in OTHERS:
        configured = any(environ.get(variable) for variable in other.variables)
        images = ImageFetching(resolver) if other.wants_bytes else None
        direct = _adapted(PydanticAIDirect(other.name, retry, images=images)) if configured else None
        remedy = f"set {' or '.join(other.variables)}"
        providers.append(Provider(ProviderInfo(other.name, configured, other.models), direct, remedy, other.ignores))
    return ModelProviders(*providers)


def _adapted(model: ChatModel) -> ChatModel:
    return ProviderToolNames(ReasoningApart(model))


def new_session() -> aiohttp.ClientSession:
    """Creates the HTTP session that all providers share."""
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=200, keepalive_timeout=30, ttl_dns_cache=60)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

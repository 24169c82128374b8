"""Measures and traces the calls of models, whatever provider they go to. No prompt and no answer is noted."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Final

from libs import tracing
from libs.contracts.errors import ServiceError
from services.runtime.adapters import metrics
from services.runtime.domain.conversation import ModelAnswer
from services.runtime.domain.models import ChatModel, ModelRequest, OnText, ProviderInfo

_OTHER: Final = "other"


class ObservedModel:
    """A ChatModel around another one."""

    def __init__(self, model: ChatModel, providers: Iterable[ProviderInfo]) -> None:
        self._model = model
        self._listed = {model.name for provider in providers for model in provider.models}
        self._providers = {provider.name for provider in providers}

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        provider, _, model = request.model.partition(":")
        with tracing.span(
            f"chat {model}",
            tracing.Kind.CLIENT,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": provider,
                "gen_ai.request.model": model,
                "gen_ai.request.temperature": request.temperature,
                "gen_ai.request.max_tokens": request.max_tokens,
                "gen_ai.request.top_p": request.top_p,
            },
        ) as span:
            answer = await self._measured(request, on_text)
            span.set("gen_ai.response.finish_reasons", answer.finish_reason)
            span.set("gen_ai.usage.input_tokens", answer.usage.input_tokens)
            span.set("gen_ai.usage.output_tokens", answer.usage.output_tokens)
            return answer

    async def _measured(self, request: ModelRequest, on_text: OnText | None) -> ModelAnswer:
        name = self._name(request.model)
        began = perf_counter()
        outcome = "cancelled"
        try:
            answer = await self._model.answer(request, on_text)
            outcome = "completed"
        except ServiceError as problem:
            outcome = problem.kind.value
            raise
        except Exception:
            outcome = "internal_error"
            raise
        finally:
            metrics.MODEL_CALLS.labels(name, outcome).inc()
            metrics.MODEL_SECONDS.labels(name).observe(perf_counter() - began)
        metrics.TOKENS.labels(name, "input").inc(answer.usage.input_tokens)
        metrics.TOKENS.labels(name, "output").inc(answer.usage.output_tokens)
        return answer

    def _name(self, model: str) -> str:
        """Models that are not listed go together: agents may name any, and each would be a series for ever."""
        if model in self._listed:
            return model
        provider = model.partition(":")[0]
        return f"{provider if provider in self._providers else _OTHER}:{_OTHER}"

"""Calls providers that aren't OpenAI-compatible through pydantic-ai's direct API.

Importing pydantic-ai takes seconds, so the first call imports it in a thread.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from libs.json_text import PairedText
from libs.retry import RetryPolicy
from services.runtime.adapters.models.failures import (
    RETRIED_STATUSES,
    ProviderRetries,
    Retryable,
    connection_failure,
    error_message,
    provider_failure,
    redact,
)
from services.runtime.adapters.models.images import ImageFetching
from services.runtime.domain.conversation import ModelAnswer
from services.runtime.domain.models import ModelFailed, ModelRequest, OnText

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError
    from pydantic_ai.models import Model

_log = structlog.get_logger("model")
_MOST_MODELS = 64
_TRANSLATION = "services.runtime.adapters.models.pydantic_ai_translation"


class PydanticAIDirect:
    """Implements ChatModel for one provider. pydantic-ai reads the credentials from the environment.

    `infer` creates pydantic-ai's model from its name. `images` is for providers that need an image's bytes.
    """

    def __init__(
        self,
        provider: str,
        retry: RetryPolicy | None = None,
        *,
        timeout: float = 180.0,
        infer: Callable[[str], Model] | None = None,
        images: ImageFetching | None = None,
    ) -> None:
        self._provider = provider
        self._retries = ProviderRetries(provider, retry)
        self._timeout = timeout
        self._infer = infer
        self._images = images
        self._models: dict[str, Model] = {}

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        await asyncio.to_thread(importlib.import_module, _TRANSLATION)
        if self._images is not None:
            request = await self._images.inlined(request)
        return await self._retries.run(lambda: self._attempt(request, on_text))

    async def _attempt(self, request: ModelRequest, on_text: OnText | None) -> ModelAnswer:
        from pydantic_ai.exceptions import AgentRunError, ModelAPIError, UserError

        emitted = False

        def emit(text: str) -> None:
            nonlocal emitted
            emitted = True
            assert on_text is not None
            on_text(text)

        try:
            model = await self._model(request.model)
            return await self._call(model, request, None if on_text is None else emit)
        except ModelAPIError as error:
            raise self._failure(error, emitted=emitted) from error
        except UserError as error:
            # For example, a missing key. The library's message is for the operator, not for the agent's caller.
            _log.error("model.not_usable", model=request.model, problem=redact(str(error)))
            raise self._failed(
                "the provider isn't configured for this model; ask an operator to check the runtime's log"
            ) from error
        except AgentRunError as error:
            raise self._failed(str(error)) from error

    async def _model(self, name: str) -> Model:
        from pydantic_ai.models import infer_model

        model = self._models.get(name)
        if model is None:
            # Also imports the provider's SDK, which takes another second or two.
            model = await asyncio.to_thread(self._infer or infer_model, name)
            while len(self._models) >= _MOST_MODELS:
                del self._models[next(iter(self._models))]
            self._models[name] = model
        return model

    async def _call(self, model: Model, request: ModelRequest, on_text: OnText | None) -> ModelAnswer:
        from pydantic_ai.direct import model_request, model_request_stream

        from services.runtime.adapters.models import pydantic_ai_translation as translation

        messages = translation.messages(request)
        settings = translation.settings(request, self._timeout, stream=on_text is not None)
        parameters = translation.parameters(request, native_output=translation.takes_schema(model, request))
        if on_text is None:
            response = await model_request(
                model, messages, model_settings=settings, model_request_parameters=parameters
            )
            return translation.answer(response)
        paired = PairedText()
        async with model_request_stream(
            model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for event in stream:
                if text := paired.take(translation.text_of(event)):
                    on_text(text)
        if text := paired.finish():
            on_text(text)
        return translation.answer(stream.get())

    def _failure(self, error: ModelAPIError, *, emitted: bool) -> Exception:
        from pydantic_ai.exceptions import ModelConnectionError, ModelHTTPError, ModelRequestTimeout

        status = error.status_code if isinstance(error, ModelHTTPError) else None
        if isinstance(error, ModelRequestTimeout):
            failure = self._failed("the request timed out")
        elif isinstance(error, ModelConnectionError):
            problem = error.__cause__ or error
            address = str(getattr(getattr(problem, "request", None), "url", ""))
            failure = self._failed(connection_failure(self._provider, address, problem))
        else:
            body = error.body if isinstance(error, ModelHTTPError) else None
            failure = self._failed(error_message(body) if body else str(error), status)
        passing = status in RETRIED_STATUSES or isinstance(error, ModelConnectionError | ModelRequestTimeout)
        return Retryable(failure, error.retry_after) if passing and not emitted else failure

    def _failed(self, message: str, status: int | None = None) -> ModelFailed:
        return provider_failure(self._provider, redact(message), status)

"""Calls providers that aren't OpenAI-compatible through pydantic-ai's direct API.

Importing pydantic-ai takes seconds, so the first call imports it in a thread.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import structlog

from libs.json_text import PairedText
from libs.retry import RetryPolicy
from services.runtime.adapters.models.failures import ProviderCalls, error_message, redact
from services.runtime.adapters.models.images import ImageFetching
from services.runtime.domain.conversation import ModelAnswer
from services.runtime.domain.models import ModelRequest, OnText

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_log = structlog.get_logger("model")
_MOST_MODELS = 64
_TRANSLATION = "services.runtime.adapters.models.pydantic_ai_translation"


def _inferred(name: str) -> Model:
    from pydantic_ai.models import infer_model

    return infer_model(name)


class PydanticAIDirect:
    """Implements ChatModel for one provider. pydantic-ai reads the credentials from the environment.

    `infer` creates pydantic-ai's model from its name. `images` is for providers that need an image's bytes.
    """

    def __init__(
        self,
        provider: str,
        retry: RetryPolicy | None = None,
        *,
        infer: Callable[[str], Model] = _inferred,
        images: ImageFetching | None = None,
    ) -> None:
        self._calls = ProviderCalls(provider, retry)
        self._model = lru_cache(_MOST_MODELS)(infer)
        self._images = images

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        await asyncio.to_thread(importlib.import_module, _TRANSLATION)
        if self._images is not None:
            request = await self._images.inlined(request)
        return await self._calls.run(lambda emit: self._attempt(request, emit), on_text)

    async def _attempt(self, request: ModelRequest, on_text: OnText | None) -> ModelAnswer:
        from pydantic_ai.exceptions import (
            AgentRunError,
            ModelConnectionError,
            ModelHTTPError,
            ModelRequestTimeout,
            UserError,
        )

        try:
            # Also imports the provider's SDK, which takes another second or two.
            model = await asyncio.to_thread(self._model, request.model)
            return await self._call(model, request, on_text)
        except ModelRequestTimeout as error:
            raise self._calls.timed_out() from error
        except ModelConnectionError as error:
            problem = error.__cause__ or error
            address = str(getattr(getattr(problem, "request", None), "url", ""))
            raise self._calls.unreachable(address, problem) from error
        except ModelHTTPError as error:
            message = error_message(error.body) if error.body else str(error)
            raise self._calls.refused(message, error.status_code, error.retry_after) from error
        except UserError as error:
            # For example, a missing key. The library's message is for the operator, not for the agent's caller.
            _log.error("model.not_usable", model=request.model, problem=redact(str(error)))
            raise self._calls.failed(
                "the provider isn't configured for this model; ask an operator to check the runtime's log"
            ) from error
        except AgentRunError as error:
            raise self._calls.failed(str(error)) from error

    async def _call(self, model: Model, request: ModelRequest, on_text: OnText | None) -> ModelAnswer:
        from pydantic_ai.direct import model_request, model_request_stream

        from services.runtime.adapters.models import pydantic_ai_translation as translation

        messages = translation.messages(request)
        settings = translation.settings(request, stream=on_text is not None)
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

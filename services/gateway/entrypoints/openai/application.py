"""Serves OpenAI's API at ``/openai/v1/``, for unmodified clients."""

from typing import Final

from starlette.middleware import Middleware

from services.gateway.entrypoints.door.application import Door, ProtocolApplication
from services.gateway.entrypoints.openai import (
    chat_completions,
    conversations,
    files,
    models,
    responses,
    vector_stores,
)
from services.gateway.entrypoints.openai.conventions import PREFIX, SHAPE, ClientHeadersMiddleware

_ROUTERS: Final = (
    responses.router,
    conversations.router,
    chat_completions.router,
    models.router,
    files.router,
    vector_stores.router,
)


class OpenAIApplication(ProtocolApplication):
    def __init__(self, door: Door) -> None:
        super().__init__(door, PREFIX, _ROUTERS, SHAPE, middleware=[Middleware(ClientHeadersMiddleware)])

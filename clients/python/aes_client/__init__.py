"""The client for the Agent Execution Service: ``Client`` is blocking, ``AsyncClient`` is asynchronous."""

from aes_client import api_errors
from aes_client.api_errors import *  # noqa: F403 - one class for each error of the service
from aes_client.clients import AsyncClient, Client
from aes_client.errors import (
    ActionRequired,
    AesError,
    ApiError,
    ConnectionFailed,
    NotConfigured,
    TimeLimitReached,
    UnexpectedResponse,
)
from aes_client.resources.files import UploadProgress
from aes_client.resources.sessions import SessionHandle
from aes_client.resources.turns import StreamedEvent, TurnHandle
from aes_client.retries import RetryPolicy
from aes_client.tools import ClientTool, tool
from aes_client.webhooks import WebhookEvent, WebhookNotVerified, verify_webhook

__all__ = [
    "ActionRequired",
    "AesError",
    "ApiError",
    "AsyncClient",
    "Client",
    "ClientTool",
    "ConnectionFailed",
    "NotConfigured",
    "RetryPolicy",
    "SessionHandle",
    "StreamedEvent",
    "TimeLimitReached",
    "TurnHandle",
    "UnexpectedResponse",
    "UploadProgress",
    "WebhookEvent",
    "WebhookNotVerified",
    "tool",
    "verify_webhook",
]
__all__ += api_errors.__all__

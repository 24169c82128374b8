"""Client of the Agent Execution Service: ``Client`` for blocking programs, ``AsyncClient`` for asyncio."""

from aes_client.api_errors import (
    AuthenticationError,
    BudgetExceededError,
    ConflictError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    ModelError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RangeNotSatisfiableError,
    RateLimitError,
    RequestTooLargeError,
    ServiceTimeoutError,
    ServiceUnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from aes_client.clients import AsyncClient, Client
from aes_client.errors import (
    ActionRequired,
    AesError,
    ApiError,
    ConnectionFailed,
    NotConfigured,
    TimeLimitReached,
    UnexpectedAnswer,
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
    "AuthenticationError",
    "BudgetExceededError",
    "Client",
    "ClientTool",
    "ConflictError",
    "ConnectionFailed",
    "InternalError",
    "InvalidRequestError",
    "MethodNotAllowedError",
    "ModelError",
    "NotConfigured",
    "NotFoundError",
    "PermissionDeniedError",
    "QuotaExceededError",
    "RangeNotSatisfiableError",
    "RateLimitError",
    "RequestTooLargeError",
    "RetryPolicy",
    "ServiceTimeoutError",
    "ServiceUnavailableError",
    "SessionHandle",
    "StreamedEvent",
    "TimeLimitReached",
    "TurnHandle",
    "UnexpectedAnswer",
    "UnsupportedMediaTypeError",
    "UploadProgress",
    "ValidationError",
    "WebhookEvent",
    "WebhookNotVerified",
    "tool",
    "verify_webhook",
]

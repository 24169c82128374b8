"""Exceptions that the client raises. ``aes_client.api_errors`` defines one for each error of the service."""

from __future__ import annotations

from collections.abc import Sequence

from aes_client.models import ErrorDetail, RequiredAction

_TRANSIENT = frozenset({"rate_limit_error", "service_unavailable", "timeout_error"})


class AesError(Exception):
    """The base class of all exceptions of the client."""


class ApiError(AesError):
    """An error returned by the service. ``status`` is the HTTP status, or 0 for an error in an event.

    ``details`` lists invalid fields or exceeded limits. ``retry_after`` is in seconds.
    """

    type: str = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        type: str | None = None,
        status: int = 0,
        details: Sequence[ErrorDetail] = (),
        correlation_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.type = type or self.type
        self.status = status
        self.details = tuple(details)
        self.correlation_id = correlation_id
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        """Whether a retry can succeed."""
        return self.type in _TRANSIENT

    def __str__(self) -> str:
        # The message often repeats the first detail.
        others = [each for each in self.details if each.loc and each.message not in self.message]
        return "\n  ".join([self.message, *(f"{'.'.join(map(str, each.loc))}: {each.message}" for each in others)])


class ConnectionFailed(AesError):
    """The service didn't respond to any attempt."""


class TimeLimitReached(AesError):
    """The call took longer than its ``timeout``. If the call waited for a turn, the turn keeps running."""

    def __init__(self, message: str, *, session_id: str | None = None, turn_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.turn_id = turn_id


class ActionRequired(AesError):
    """A turn is waiting for actions that the call's ``tools`` and ``approve`` can't resolve.

    Resolve each action in ``actions`` with ``client.session(error.session_id).turn(error.turn_id).resolve(…)``.
    """

    def __init__(self, session_id: str, turn_id: str, actions: Sequence[RequiredAction]) -> None:
        calls = ", ".join(f"{each.kind} of {each.tool_call.name}" for each in actions)
        super().__init__(f"Turn {turn_id} is waiting for: {calls}.")
        self.session_id = session_id
        self.turn_id = turn_id
        self.actions = tuple(actions)


class UnexpectedResponse(AesError):
    """The response isn't from the service. Check the address and any proxy in between."""


class NotConfigured(AesError, ValueError):
    """The service's address or the credential is missing, or the address is invalid."""

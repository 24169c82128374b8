"""Errors of the client.

AesError
├── ApiError                 an error of the service, by its type in ``aes_client.api_errors``
├── ConnectionFailed         no answer, after all attempts
├── TimeLimitReached         the caller's time limit
├── ActionRequired           a turn waits for an answer that this call doesn't give
├── UnexpectedAnswer         an answer that isn't the service's
└── NotConfigured            no address or no credential was given; a ``ValueError`` as well
"""

from __future__ import annotations

from collections.abc import Sequence

from aes_client.models import ErrorDetail, RequiredAction

_TRANSIENT = frozenset({"rate_limit_error", "service_unavailable", "timeout_error"})


class AesError(Exception):
    """The base class of all errors of this client."""


class ApiError(AesError):
    """An error returned by the service. ``status`` is 0 if it was received as an event.

    ``details``: what is wrong where, for a ``ValidationError``. ``retry_after``: seconds.
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
        """Whether a retry can help."""
        return self.type in _TRANSIENT

    def __str__(self) -> str:
        # The message often says the first problem, or the only one, itself.
        others = [each for each in self.details if each.loc and each.message not in self.message]
        return "\n  ".join([self.message, *(f"{'.'.join(map(str, each.loc))}: {each.message}" for each in others)])


class ConnectionFailed(AesError):
    """The service didn't respond."""


class TimeLimitReached(AesError):
    """The caller's time limit has passed. The turn ``turn_id`` keeps running in the service."""

    def __init__(self, message: str, *, session_id: str | None = None, turn_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.turn_id = turn_id


class ActionRequired(AesError):
    """A turn is waiting for answers that this call's tools and approvals don't give.

    It waits on: ``client.session(error.session_id).turn(error.turn_id).resolve(…)`` answers the ``actions``.
    """

    def __init__(self, session_id: str, turn_id: str, actions: Sequence[RequiredAction]) -> None:
        calls = ", ".join(f"{each.kind} of {each.tool_call.name}" for each in actions)
        super().__init__(f"The turn {turn_id} waits for: {calls}.")
        self.session_id = session_id
        self.turn_id = turn_id
        self.actions = tuple(actions)


class UnexpectedAnswer(AesError):
    """The response isn't from the service. Check the address, and whether a proxy is in between."""


class NotConfigured(AesError, ValueError):
    """The service's address or the credential is missing."""

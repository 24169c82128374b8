"""Opens the Python client for commands, and explains the client's errors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from aes_client import AesError, ApiError, Client, ConnectionFailed, RetryPolicy, UnexpectedResponse
from httpx import Client as HttpClient

from cli.connection import Connection
from deploy.local.errors import StackError
from libs.contracts.errors import dotted_path

_ADDRESS = "Check the address. For the embedded stack, run: ./aes status"
_REMEDIES = {
    "invalid_request_error": "Fix the value named above and try again.",
    "validation_error": "Fix the value named above and try again.",
    "authentication_error": "Check --api-key or AES_API_KEY. To replace an expired default key, run ./aes up.",
    "permission_error": "Use a key that has the required scope. GET /api/v1/me/ lists your key's scopes.",
    "not_found_error": "Check the address and the IDs.",
    "rate_limit_error": "Wait a moment and try again.",
    "budget_exceeded": "See the budgets with: ./aes budgets list",
    "model_error": "Check the model's name, the provider's API key and your account. Details: ./aes logs runtime",
    "service_unavailable": "Part of the service is down or starting. See: ./aes status",
    "timeout_error": "The service is busy or partly down. See: ./aes status",
    "internal_error": "See: ./aes logs gateway",
}


@dataclass(frozen=True)
class _RetriesOnceAnswered(RetryPolicy):
    """Doesn't retry before the first response, because the address is probably wrong."""

    answered: Event = field(default_factory=Event)

    def pause_after(self, failures: int, problem: Exception) -> float | None:
        is_nowhere = not self.answered.is_set() and not isinstance(problem, ApiError)
        return None if is_nowhere else super().pause_after(failures, problem)


@contextmanager
def open_client(
    connection: Connection, *, retries: int, timeout: float, headers: Mapping[str, str]
) -> Iterator[Client]:
    """Yields a client. Errors of the client are raised as StackError."""
    policy = _RetriesOnceAnswered(retries=retries)
    hooks = {"response": [lambda _: policy.answered.set()]}
    with HttpClient(headers=headers, event_hooks=hooks) as http:
        try:
            yield Client(connection.base_url, connection.api_key, timeout=timeout, retries=policy, http=http)
        except AesError as error:
            raise explained(error, connection.base_url) from error
        except ValueError as error:
            # An argument can't be sent, such as an empty ID.
            raise StackError(f"{error}.") from error


def explained(error: AesError, address: str = "the service") -> StackError:
    """Converts an error of the client to a StackError with a remedy."""
    if isinstance(error, ApiError):
        lines = [error.message]
        for number, detail in enumerate(error.details):
            # The message often includes the first detail.
            if number == 0 and detail.message in error.message and not detail.hint:
                continue
            hint = f" ({detail.hint})" if detail.hint else ""
            lines.append(f"  {dotted_path(detail.loc)}: {detail.message}{hint}")
        return StackError("\n".join(lines), _REMEDIES.get(error.type, ""))
    if not isinstance(error, ConnectionFailed | UnexpectedResponse):
        return StackError(str(error), "See: ./aes status")
    message = str(error)
    return StackError(message if address in message else f"{address}: {message}", _ADDRESS)

"""Reads the answers of other services' internal APIs: their bodies, or their errors as exceptions."""

from typing import Protocol

from pydantic import BaseModel, ValidationError

from libs.contracts.errors import ErrorInfo, ServiceError, ServiceUnavailable, error_from


class _ErrorBody(BaseModel):
    error: ErrorInfo


class Answered(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...


def checked(answer: Answered) -> bytes:
    """The body of a good answer; raises the error of a bad one."""
    if answer.status < 400:
        return answer.body
    raise refusal(answer.status, answer.body)


def refusal(status: int, body: bytes, *, judges_caller: bool = False) -> ServiceError:
    """The error of a bad answer.

    An upstream that refuses the service's own token is misconfigured, which is no fault of the caller. With
    ``judges_caller`` it refuses the caller's own credentials.
    """
    if status != 401 or judges_caller:
        try:
            return error_from(_ErrorBody.model_validate_json(body).error)
        except ValidationError:
            pass
    return ServiceUnavailable("A part of the service did not answer as expected.", retry_after=5)

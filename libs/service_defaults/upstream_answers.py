"""What answers of other services' internal APIs stand for."""

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
    """The body of a good answer; raises what a bad one says."""
    if answer.status < 400:
        return answer.body
    raise refusal(answer.status, answer.body)


def refusal(status: int, body: bytes, *, judges_caller: bool = False) -> ServiceError:
    """What a bad answer says.

    An upstream that does not accept the asking service's own token is set up wrongly: no fault of the caller's, unless
    it is the upstream that judges what the caller presents.
    """
    if status != 401 or judges_caller:
        try:
            return error_from(_ErrorBody.model_validate_json(body).error)
        except ValidationError:
            pass
    return ServiceUnavailable("A part of the service did not answer as expected.", retry_after=5)

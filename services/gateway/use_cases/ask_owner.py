"""Answers of the owners' internal APIs."""

import orjson
from pydantic import ValidationError

from libs.contracts.errors import ErrorInfo, ServiceError, ServiceUnavailable, error_from
from services.gateway.domain.ports import OwnerReply


def checked(reply: OwnerReply) -> bytes:
    """The body of a good answer; raises what a bad one says."""
    if reply.status < 400:
        return reply.body
    raise refusal(reply.status, reply.body)


def refusal(status: int, body: bytes, *, judges_caller: bool = False) -> ServiceError:
    """What a bad answer says.

    An owner that does not accept the gateway's own token is set up wrongly: no fault of the caller's, unless it is
    the owner that judges what the caller presents.
    """
    if status != 401 or judges_caller:
        try:
            return error_from(ErrorInfo.model_validate(orjson.loads(body)["error"]))
        except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError):
            pass
    return ServiceUnavailable("A part of the service did not answer as expected.", retry_after=5)

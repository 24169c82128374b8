"""What an ``Idempotency-Key`` stands for."""

from dataclasses import dataclass

from libs.contracts.errors import ErrorDetail, ValidationFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """One write as its caller labelled it. ``body_hash`` tells a repeat from another request."""

    company_id: str
    principal_id: str
    method: str
    path: str
    key: str
    body_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """Under which ids a write is carried out. ``repeated``: they were recorded by an earlier request."""

    command_id: str
    correlation_id: str
    repeated: bool = False


class KeyReused(Exception):
    """The idempotency key was recorded before, for that entity and a body with that hash."""

    def __init__(self, entity_id: str, body_hash: bytes) -> None:
        super().__init__(entity_id)
        self.entity_id = entity_id
        self.body_hash = body_hash


class OtherBody(ValidationFailed):
    """A repeat must be the same request."""

    def __init__(self) -> None:
        message = "The Idempotency-Key was used before with another body."
        hint = "use a new key for another request"
        place: list[str | int] = ["header", "Idempotency-Key"]
        super().__init__(message, details=[ErrorDetail(loc=place, type="key_reused", message=message, hint=hint)])

"""Write requests, and the records that identify their retries."""

from dataclasses import dataclass, replace

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identity import Identity
from services.gateway.domain.inline_images import InlineImages


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A write with an ``Idempotency-Key``. ``body_hash`` distinguishes a retry from another request with this key."""

    company_id: str
    principal_id: str
    method: str
    path: str
    key: str
    body_hash: bytes


@dataclass(slots=True, kw_only=True)
class Write:
    """A request that changes something. ``images``: the images embedded in the request.

    ``command_id``: the ID of the command to send, or None for a random ID.
    """

    identity: Identity
    correlation_id: str
    request: IdempotentRequest | None = None
    traceparent: str | None = None
    command_id: str | None = None
    images: InlineImages | None = None

    @property
    def has_images(self) -> bool:
        """Whether some of the images haven't been stored as artifacts yet."""
        return self.images is not None and bool(self.images.waiting)

    def part(self, name: str) -> "Write":
        """Returns another write that the same request needs, such as creating the session of a new turn.

        Don't rename a part: its name is stored, and a retry under another name would execute the part again.
        """
        request = self.request
        own = None if request is None else replace(request, path=f"{request.path}#{name}")
        return replace(self, request=own, command_id=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The IDs recorded for an idempotency key. ``repeated`` is True if an earlier request recorded them."""

    command_id: str
    correlation_id: str
    repeated: bool = False


class KeyReused(Exception):
    """Raised if an idempotency key has already been recorded. Has the recorded entity's ID and the body's hash."""

    def __init__(self, entity_id: str, body_hash: bytes) -> None:
        super().__init__(entity_id)
        self.entity_id = entity_id
        self.body_hash = body_hash

    def require_same_body(self, write: Write) -> None:
        """Raises ``OtherBody`` if the write's body differs from the recorded one."""
        if write.request is None or write.request.body_hash != self.body_hash:
            raise OtherBody from None


class OtherBody(ValidationFailed):
    def __init__(self) -> None:
        message = "This Idempotency-Key was already used with a different body."
        hint = "use a new key for another request"
        location: list[str | int] = ["header", "Idempotency-Key"]
        super().__init__(message, details=[ErrorDetail(loc=location, type="key_reused", message=message, hint=hint)])

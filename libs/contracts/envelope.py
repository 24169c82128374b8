"""The CloudEvents 1.0 envelope in Kafka's binary mode: attributes in headers, the payload alone as value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

JSON_CONTENT_TYPE = "application/json"

_HEADERS = {
    "ce_id": "id",
    "ce_type": "type",
    "ce_source": "source",
    "ce_subject": "subject",
    "ce_time": "time",
    "ce_correlationid": "correlation_id",
    "ce_causationid": "causation_id",
    "ce_companyid": "company_id",
    "ce_ownerid": "owner_id",
    "ce_sequence": "sequence",
    "ce_expiresat": "expires_at",
    "ce_identity": "identity",
    "ce_signature": "signature",
    "ce_dataref": "data_ref",
    "ce_datahash": "data_hash",
    "traceparent": "traceparent",
    "content-type": "content_type",
}
_REQUIRED = frozenset({"id", "type", "source", "subject", "time", "correlation_id", "company_id"})


class MalformedEnvelope(ValueError):
    """The headers of a record are no valid envelope."""


# One is made for every message that is read: a frozen one would take two and a half times as long.
@dataclass(slots=True, kw_only=True)
class Envelope:
    """The attributes of a message, readable without decoding its value.

    ``subject`` is the id of the entity that the message is about; ``sequence`` counts the events of one
    subject from 1 (0 on commands; on deltas that of the event which their text comes after). ``identity`` is the
    gateway-signed caller, which ``signature`` binds to this one command (commands only). ``owner_id`` is the only
    user who may see the event, apart from those who read the whole company; without it everybody of the company may.
    ``data_ref`` and ``data_hash`` replace a payload too large for the bus: a path of the owner's internal
    API and the SHA-256 of the bytes there.
    """

    id: str
    type: str
    source: str
    subject: str
    time: str
    correlation_id: str
    company_id: str
    causation_id: str | None = None
    owner_id: str | None = None
    sequence: int = 0
    expires_at: str | None = None
    identity: str | None = None
    signature: str | None = None
    data_ref: str | None = None
    data_hash: str | None = None
    traceparent: str | None = None
    content_type: str = JSON_CONTENT_TYPE

    def attributes(self) -> dict[str, str]:
        """The headers as text."""
        attributes = {"ce_specversion": "1.0"}
        for header, field in _HEADERS.items():
            value = getattr(self, field)
            if value is not None:
                attributes[header] = str(value)
        return attributes

    def headers(self) -> list[tuple[str, bytes]]:
        return [(header, value.encode()) for header, value in self.attributes().items()]


def envelope_from(headers: Iterable[tuple[str, bytes]]) -> Envelope:
    """Reads the envelope in a record's headers, ignoring unknown ones. Raises ``MalformedEnvelope``."""
    try:
        fields = {_HEADERS[name]: value.decode() for name, value in headers if name in _HEADERS and value is not None}
    except ValueError as problem:
        raise MalformedEnvelope(f"unreadable envelope: {problem}") from problem
    return _checked(fields)


def envelope_from_attributes(attributes: Mapping[str, str]) -> Envelope:
    """The inverse of ``Envelope.attributes``, ignoring unknown ones. Raises ``MalformedEnvelope``."""
    return _checked({_HEADERS[header]: value for header, value in attributes.items() if header in _HEADERS})


def _checked(fields: dict[str, str]) -> Envelope:
    """The envelope of attributes by the names of their fields. Raises ``MalformedEnvelope``."""
    try:
        text = "".join(fields.values())
        sequence = int(fields.pop("sequence", "0"))
    except (ValueError, TypeError) as problem:
        raise MalformedEnvelope(f"unreadable envelope: {problem}") from problem
    if missing := _REQUIRED - fields.keys():
        raise MalformedEnvelope(f"missing envelope attributes: {', '.join(sorted(missing))}")
    # No database stores NUL: such a message would be retried for ever and block its key.
    if "\0" in text:
        raise MalformedEnvelope("unreadable envelope: an attribute has a NUL character")
    return Envelope(sequence=sequence, **fields)

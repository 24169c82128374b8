"""Commands as they lie on the bus."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, Envelope
from libs.contracts.timestamps import format_time
from libs.eventing import IdentitySigner
from libs.eventing.bus import Record

SIGNING_KEY = "k" * 40
SIGNER = IdentitySigner(SIGNING_KEY)
ALICE = Identity(company_id="company-1", user_id="alice", key_id="key-1", scopes=frozenset({"runtime:execute"}))
MALLORY = Identity(company_id="company-2", user_id="mallory", key_id="key-2", scopes=frozenset())


def unchecked(command: type[Command], **fields: Any) -> Command:
    """A command as a gateway of another version may send it, with fields that may be invalid here."""

    class Unchecked(command):  # type: ignore[valid-type, misc]
        def encode(self) -> bytes:
            return orjson.dumps(fields)

    return Unchecked.model_construct(**fields)


def command_record(
    command: Command,
    *,
    command_id: str | None = None,
    caller: Identity = ALICE,
    label: str = "correlation-1",
    expires_in: float = 300,
    sent_ago: float = 0,
    value: bytes | None = None,
    offset: int = 0,
    **changes: str | None,
) -> Record:
    """``changes`` replace fields of the signed envelope."""
    now = datetime.now(UTC)
    envelope = Envelope(
        id=command_id or new_id(),
        type=command.TYPE,
        source="/aes/test",
        subject="subject",
        time=format_time(now - timedelta(seconds=sent_ago)),
        correlation_id=label,
        company_id=caller.company_id,
        expires_at=format_time(now + timedelta(seconds=expires_in)),
    )
    payload = command.encode() if value is None else value
    signed = SIGNER.sign_command(envelope, caller, payload)
    headers = replace(signed, **changes).headers()  # type: ignore[arg-type]
    return Record(command.TOPIC.name, 0, offset, label, payload, headers)

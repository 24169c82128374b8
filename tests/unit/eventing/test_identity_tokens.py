import time
from dataclasses import replace

import jwt
import pytest

from libs.contracts.envelope import Envelope
from libs.contracts.errors import AuthenticationFailed
from libs.eventing import IdentitySigner
from tests.support.command_records import ALICE, MALLORY, SIGNING_KEY

signer = IdentitySigner(SIGNING_KEY)


PAYLOAD = b'{"note_id": "n"}'
COMMAND = Envelope(
    id="command-1",
    type="aes.notes.take_note.v1",
    source="/aes/test",
    subject="n",
    time="2026-03-01T09:30:00.000000Z",
    correlation_id="c",
    company_id="company-1",
    expires_at="2026-03-01T09:31:00.000000Z",
)


def test_a_signed_command_names_its_caller_whatever_becomes_of_its_trace() -> None:
    signed = signer.sign_command(COMMAND, ALICE, PAYLOAD)
    assert signer.verify_command(replace(signed, traceparent="changed on the way"), PAYLOAD) == ALICE


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "command-2"},
        {"type": "aes.notes.drop_note.v1"},
        {"subject": "m"},
        {"time": "2026-03-02T09:30:00.000000Z"},
        {"correlation_id": "d"},
        {"company_id": "company-2"},
        {"expires_at": "2027-03-01T09:31:00.000000Z"},
        {"expires_at": None},
        {"signature": None},
        {"signature": ""},
        {"signature": "ü"},
        {"identity": signer.sign(MALLORY)},
        {"identity": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_command_is_refused_with_anything_changed(changes: dict[str, str | None]) -> None:
    signed = signer.sign_command(COMMAND, ALICE, PAYLOAD)
    with pytest.raises(AuthenticationFailed):
        signer.verify_command(replace(signed, **changes), PAYLOAD)


def test_a_command_is_refused_with_another_payload() -> None:
    with pytest.raises(AuthenticationFailed):
        signer.verify_command(signer.sign_command(COMMAND, ALICE, PAYLOAD), b'{"note_id": "m"}')


def test_a_command_signed_before_a_rotation_is_taken() -> None:
    rotated = IdentitySigner("n" * 40, SIGNING_KEY)
    assert rotated.verify_command(signer.sign_command(COMMAND, ALICE, PAYLOAD), PAYLOAD) == ALICE


def test_a_call_needs_a_token_that_expires() -> None:
    assert signer.verify_call(signer.sign(ALICE, expires_at=time.time() + 60)) == ALICE
    with pytest.raises(AuthenticationFailed):
        signer.verify_call(signer.sign(ALICE))


def test_an_expired_token_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        signer.verify_call(signer.sign(ALICE, expires_at=time.time() - 1))
    with pytest.raises(AuthenticationFailed):
        signer.verify_command(replace(COMMAND, identity=signer.sign(ALICE, expires_at=time.time() - 1)), PAYLOAD)


def test_a_token_that_was_accepted_is_refused_once_it_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    token = signer.sign(ALICE, expires_at=time.time() + 60)
    assert signer.verify_call(token) == ALICE
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(AuthenticationFailed):
        signer.verify_call(token)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x.y.z",
        "ü",
        IdentitySigner("x" * 40).sign(ALICE),
        jwt.encode({"user_id": "alice", "exp": 9_999_999_999}, SIGNING_KEY, algorithm="HS256"),
        jwt.encode({**ALICE.model_dump(mode="json"), "exp": 9_999_999_999}, None, algorithm="none"),
    ],
    ids=["none", "garbage", "not ascii", "another key", "no identity", "unsigned"],
)
def test_what_was_not_signed_here_is_refused(token: str) -> None:
    with pytest.raises(AuthenticationFailed):
        signer.verify_call(token)
    signed = signer.sign_command(COMMAND, ALICE, PAYLOAD)
    with pytest.raises(AuthenticationFailed):
        signer.verify_command(replace(signed, identity=token), PAYLOAD)


def test_a_short_key_is_no_key() -> None:
    with pytest.raises(ValueError, match="32"):
        IdentitySigner("short")

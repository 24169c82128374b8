import time

import jwt
import pytest

from libs.contracts.errors import AuthenticationFailed
from libs.eventing import IdentitySigner
from tests.support.command_records import ALICE, SIGNING_KEY

signer = IdentitySigner(SIGNING_KEY)


def test_a_commands_token_lasts_and_names_the_caller() -> None:
    assert signer.verify_command(signer.sign(ALICE)) == ALICE


def test_a_call_needs_a_token_that_expires() -> None:
    assert signer.verify_call(signer.sign(ALICE, expires_at=time.time() + 60)) == ALICE
    with pytest.raises(AuthenticationFailed):
        signer.verify_call(signer.sign(ALICE))


def test_an_expired_token_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        signer.verify_call(signer.sign(ALICE, expires_at=time.time() - 1))
    with pytest.raises(AuthenticationFailed):
        signer.verify_command(signer.sign(ALICE, expires_at=time.time() - 1))


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
    with pytest.raises(AuthenticationFailed):
        signer.verify_command(token)


def test_a_short_key_is_no_key() -> None:
    with pytest.raises(ValueError, match="32"):
        IdentitySigner("short")

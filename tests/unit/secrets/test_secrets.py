"""Encrypted secrets and the rotation of their keys."""

import base64

import pytest
from pydantic import ValidationError

from libs.secrets import SecretCipher, SecretsSettings, SecretUnreadable, id_of, key_id, parse_keys

OLD, NEW = b"o" * 32, b"n" * 32
CONTEXT = "webhook_endpoints/1"


def test_what_was_encrypted_is_read_again_and_never_looks_alike() -> None:
    cipher = SecretCipher([NEW])
    stored = [cipher.encrypt("whsec_grün", context=CONTEXT) for _ in range(2)]

    assert [cipher.decrypt(one, context=CONTEXT) for one in stored] == ["whsec_grün"] * 2
    assert stored[0] != stored[1]
    assert b"whsec" not in stored[0]


def test_the_first_key_encrypts_and_each_decrypts() -> None:
    before = SecretCipher([OLD]).encrypt("secret", context=CONTEXT)
    during = SecretCipher([NEW, OLD])
    after = SecretCipher([NEW])

    assert during.decrypt(before, context=CONTEXT) == "secret"
    again = during.encrypt("secret", context=CONTEXT)
    assert (id_of(before), id_of(again)) == (key_id(OLD), key_id(NEW))
    assert during.current_id == key_id(NEW)
    assert after.decrypt(again, context=CONTEXT) == "secret"
    with pytest.raises(SecretUnreadable, match=key_id(OLD).hex()):
        after.decrypt(before, context=CONTEXT)


def test_a_ciphertext_is_good_in_its_own_place_only() -> None:
    cipher = SecretCipher([NEW])
    with pytest.raises(SecretUnreadable, match="another place"):
        cipher.decrypt(cipher.encrypt("secret", context=CONTEXT), context="webhook_endpoints/2")


@pytest.mark.parametrize("position", [0, 3, 10, 25, -1])
def test_a_changed_byte_is_noticed(position: int) -> None:
    cipher = SecretCipher([NEW])
    stored = bytearray(cipher.encrypt("secret", context=CONTEXT))
    stored[position] ^= 1
    with pytest.raises(SecretUnreadable):
        cipher.decrypt(bytes(stored), context=CONTEXT)


@pytest.mark.parametrize("stored", [b"", b"\x01", b"\x01" + key_id(NEW), b"\x01" + key_id(NEW) + b"x" * 11])
def test_what_is_too_short_is_unreadable(stored: bytes) -> None:
    with pytest.raises(SecretUnreadable):
        SecretCipher([NEW]).decrypt(stored, context=CONTEXT)


def test_keys_are_base64_of_either_alphabet_with_or_without_padding() -> None:
    key = b"\xfb\xff" * 16
    standard, safe = base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()

    assert standard != safe
    assert parse_keys(f"{standard}, {safe.rstrip('=')} ,") == [key, key]
    assert parse_keys("") == []


@pytest.mark.parametrize("wrong", ["short", "not base64 at all!", base64.b64encode(b"x" * 31).decode(), "ä" * 44])
def test_a_wrong_key_is_refused_at_the_start_and_not_repeated(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = base64.b64encode(NEW).decode()
    monkeypatch.setenv("AES_SECRETS_KEY", f"{good},{wrong}")
    with pytest.raises(ValidationError) as refused:
        SecretsSettings()

    (error,) = refused.value.errors(include_input=False)
    assert error["loc"] == ("AES_SECRETS_KEY",)
    assert "key 2" in error["msg"]
    assert wrong not in str(refused.value)
    assert good not in str(refused.value)


def test_without_keys_there_is_no_cipher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AES_SECRETS_KEY", raising=False)
    assert SecretsSettings().secret_cipher() is None
    monkeypatch.setenv("AES_SECRETS_KEY", base64.b64encode(NEW).decode())
    cipher = SecretsSettings().secret_cipher()
    assert cipher.current_id == key_id(NEW)

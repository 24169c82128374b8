"""A signing key is changed while processes with the old one and with the new one run side by side."""

import itertools
import time
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr, ValidationError

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identifiers import new_id
from libs.eventing import IdentitySigner
from services.artifacts.domain.links import LinkSigner
from services.gateway.domain.accounts import TokenGrant
from services.gateway.domain.tokens import JwtTokens
from services.registry.settings import RegistrySettings
from tests.support.command_records import ALICE

OLD, NEW = "the old key of an installation: long enough", "the new key of an installation: long enough"
# What processes are told, one step of the change after the other: the key that signs and those accepted besides.
STEPS = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]


@pytest.mark.parametrize(("before", "after"), list(itertools.pairwise(STEPS)))
def test_neighbours_of_one_step_understand_each_other(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    grant = TokenGrant(key_id="key-1", scopes=frozenset({"runtime:execute"}), expires_at=soon)
    artifact = new_id()
    for signing, reading in ((before, after), (after, before)):
        token = IdentitySigner(*signing).sign(ALICE, expires_at=time.time() + 60)
        assert IdentitySigner(*reading).verify_call(token) == ALICE
        assert JwtTokens(*reading).decode(JwtTokens(*signing).encode(grant)) == grant
        expires = int(time.time()) + 60
        given = [tuple(pair.split("=")) for pair in LinkSigner(*signing).query(artifact, expires).split("&")]
        LinkSigner(*reading).check(artifact, given, time.time())


def test_the_old_key_is_refused_after_the_rotation() -> None:
    token = IdentitySigner(OLD).sign(ALICE, expires_at=time.time() + 60)
    with pytest.raises(AuthenticationFailed):
        IdentitySigner(NEW).verify_call(token)
    with pytest.raises(AuthenticationFailed):
        IdentitySigner(NEW, "another one that is long enough as well").verify_call(token)


def test_an_expired_token_is_refused_with_every_key() -> None:
    token = IdentitySigner(OLD).sign(ALICE, expires_at=time.time() - 5)
    for keys in ((OLD,), (OLD, NEW), (NEW, OLD)):
        with pytest.raises(AuthenticationFailed):
            IdentitySigner(*keys).verify_call(token)


def settings(accepted: str) -> RegistrySettings:
    return RegistrySettings.model_validate(
        {
            "database_url": SecretStr("postgresql://somewhere/registry"),
            "signing_key": SecretStr(NEW),
            "accepted_signing_keys": SecretStr(accepted),
        }
    )


def test_accepted_keys_are_separated_by_commas() -> None:
    assert settings("").signing_keys() == (NEW,)
    assert settings(f"{OLD}, {'k' * 40}").signing_keys() == (NEW, OLD, "k" * 40)
    with pytest.raises(ValidationError, match="at least 32 characters"):
        settings("short")
    for listed in (f'["{OLD}"]', f' ["{OLD}","{"k" * 40}"]'):
        with pytest.raises(ValidationError, match="must be separated by commas"):
            settings(listed)

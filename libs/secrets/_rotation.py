"""Re-encrypts stored secrets with the newest key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from libs.secrets._cipher import SecretCipher, SecretUnreadable

_BATCH: Final = 100


class StoredSecret(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def context(self) -> str: ...

    @property
    def ciphertext(self) -> bytes: ...


S = TypeVar("S", bound=StoredSecret)


class SecretStore(Protocol[S]):
    async def secrets_not_under(self, key_id: bytes, *, after: str, limit: int) -> Sequence[S]:
        """Returns secrets that aren't encrypted with this key, ordered by ID, starting after the ID ``after``."""

    async def replace_ciphertext(self, old: S, ciphertext: bytes) -> None:
        """Replaces the ciphertext unless the secret has changed since it was read."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The result of a rotation. ``unreadable`` contains the context and error of each secret that no key decrypts."""

    changed: int
    unreadable: tuple[tuple[str, SecretUnreadable], ...]


async def reencrypt(store: SecretStore[S], cipher: SecretCipher) -> Rotation:
    """Re-encrypts every secret that isn't encrypted with the newest key. Several runs can overlap."""
    changed, unreadable, after = 0, [], ""
    while batch := await store.secrets_not_under(cipher.current_id, after=after, limit=_BATCH):
        for secret in batch:
            after = secret.id
            try:
                text = cipher.decrypt(secret.ciphertext, context=secret.context)
            except SecretUnreadable as problem:
                unreadable.append((secret.context, problem))
                continue
            await store.replace_ciphertext(secret, cipher.encrypt(text, context=secret.context))
            changed += 1
    return Rotation(changed, tuple(unreadable))

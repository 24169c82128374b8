from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from libs.secrets import SecretCipher, id_of, reencrypt

OLD, NEW, LOST = b"o" * 32, b"n" * 32, b"l" * 32


@dataclass(frozen=True)
class Kept:
    id: str
    place: str
    ciphertext: bytes


@dataclass
class Store:
    secrets: dict[str, Kept] = field(default_factory=dict)

    def keep(self, number: int, key: bytes) -> None:
        kept = Kept(f"{number:04}", f"place/{number}", b"")
        self.secrets[kept.id] = replace(kept, ciphertext=SecretCipher([key]).encrypt(str(number), place=kept.place))

    async def secrets_not_under(self, key_id: bytes, *, after: str, limit: int) -> Sequence[Kept]:
        found = [each for each in self.secrets.values() if id_of(each.ciphertext) != key_id and each.id > after]
        return sorted(found, key=lambda each: each.id)[:limit]

    async def replace_ciphertext(self, old: Kept, ciphertext: bytes) -> None:
        if self.secrets[old.id] == old:
            self.secrets[old.id] = replace(old, ciphertext=ciphertext)


async def test_everything_readable_gets_the_newest_key() -> None:
    store = Store()
    for number in range(450):
        # More unreadable ones in a row than a batch holds: those behind them are reached all the same.
        store.keep(number, LOST if 100 <= number < 250 else NEW if number < 10 else OLD)
    cipher = SecretCipher([NEW, OLD])

    rotation = await reencrypt(store, cipher)

    assert rotation.changed == 290
    assert [place for place, _ in rotation.unreadable] == [f"place/{number}" for number in range(100, 250)]
    for number in (0, 10, 449):
        assert SecretCipher([NEW]).decrypt(store.secrets[f"{number:04}"].ciphertext, place=f"place/{number}")
    assert (await reencrypt(store, cipher)).changed == 0

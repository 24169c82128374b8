"""Command groups that suggest similar names for an unknown command."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from typer import Context
from typer.core import TyperGroup

# `bogus` and `logs` have a similarity of 0.67, swapped letters as in `lgos` 0.75.
_LIKENESS = 0.7


class Commands(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            fail_unknown(ctx, args[0], self.commands)
        return super().resolve_command(ctx, args)


def fail_unknown(ctx: Context, name: str, known: Iterable[str]) -> NoReturn:
    similar = " or ".join(f"'{each}'" for each in get_close_matches(name, list(known), cutoff=_LIKENESS))
    hint = f" Did you mean {similar}?" if similar else ""
    ctx.fail(f"Unknown command {name!r}.{hint}")

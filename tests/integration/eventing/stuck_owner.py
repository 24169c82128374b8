"""``python -m tests.integration.eventing.stuck_owner``: an owner that takes commands and ends none of them."""

import asyncio

from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from tests.support.sample_owner import NotesSettings, TakeNote, build


async def _take_for_ever(transaction: Transaction, command: TakeNote, _context: CommandContext) -> None:
    await transaction.connection.execute("INSERT INTO notes VALUES (%s, %s)", (command.note_id, command.text))
    await asyncio.Event().wait()


def main() -> None:
    service = build(NotesSettings())
    service.commands.handle(TakeNote, _take_for_ever)
    asyncio.run(service.run())


if __name__ == "__main__":
    main()

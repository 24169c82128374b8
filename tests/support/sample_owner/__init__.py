"""A whole owner in one page: a command, an event, a read, its own database."""

from pathlib import Path

from pydantic_settings import SettingsConfigDict

from libs.contracts.errors import Conflict, NotFound
from libs.contracts.messages import Command, CommandContext, Event
from libs.contracts.topics import commands_topic, events_topic
from libs.eventing import Transaction
from libs.service_defaults import Caller, Service, ServiceSettings

MIGRATIONS = Path(__file__).parent / "migrations"
TOPICS = (commands_topic("notes", 3), events_topic("notes", 3, ()))


class NoteTaken(Event, type="aes.notes.note.taken.v1", topic=TOPICS[1]):
    note_id: str


class TakeNote(Command, type="aes.notes.take_note.v1", topic=TOPICS[0], outcomes=(NoteTaken,)):
    note_id: str
    text: str


class NotesSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_NOTES_", extra="ignore", populate_by_name=True)


async def take_note(transaction: Transaction, command: TakeNote, _context: CommandContext) -> None:
    if command.text == "":
        raise Conflict("The note has no text. Add `text`.")
    await transaction.connection.execute("INSERT INTO notes VALUES (%s, %s)", (command.note_id, command.text))
    transaction.emit(NoteTaken(note_id=command.note_id), subject=command.note_id)


def build(settings: NotesSettings) -> Service:
    service = Service("notes", settings, migrations=MIGRATIONS)
    service.commands.handle(TakeNote, take_note)

    @service.http.get("/internal/notes/{note_id}")
    async def note(note_id: str, _identity: Caller) -> dict[str, str]:
        async with service.database.connection() as connection:
            row = await (await connection.execute("SELECT text FROM notes WHERE id = %s", (note_id,))).fetchone()
        if row is None:
            raise NotFound("There is no note with this ID.")
        return {"id": note_id, "text": row[0]}

    return service

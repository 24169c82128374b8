"""An owner that is killed with commands in its hands."""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator

import pytest

from libs.eventing import CommandSender
from libs.persistence import Database
from tests.integration.eventing.conftest import SIGNING_KEY, Installation, caller, installed, serving
from tests.integration.eventing.test_sample_owner import take_note
from tests.support.sample_owner import NoteTaken
from tests.support.waiting import until

IN_WORK = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%%'
"""


@pytest.fixture
async def installation(kafka: str, topic_prefix: str, database_url: str) -> Installation:
    return await installed(kafka, topic_prefix, database_url)


@pytest.fixture
async def sender(installation: Installation) -> AsyncIterator[CommandSender]:
    async with caller(installation) as sender:
        yield sender


@pytest.fixture
async def doomed(installation: Installation) -> AsyncIterator[Process]:
    """An owner in a process of its own that takes commands and never ends one."""
    environment = os.environ | {
        "AES_SIGNING_KEY": SIGNING_KEY,
        "AES_KAFKA_BOOTSTRAP_SERVERS": installation.kafka,
        "AES_TOPIC_PREFIX": installation.prefix,
        "AES_NOTES_DATABASE_URL": installation.database_url,
        "AES_NOTES_PORT": str(installation.port),
        "AES_AUTO_MIGRATE": "true",
    }
    command = sys.executable, "-m", "tests.integration.eventing.stuck_owner"
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.mark.rule(2)
async def test_commands_of_a_process_that_is_killed_are_carried_out_once_by_another(
    doomed: Process, installation: Installation, sender: CommandSender
) -> None:
    waiting = [
        asyncio.create_task(take_note(sender, f"note {number}", note_id=f"note-{number}")) for number in range(10)
    ]
    database = Database(installation.database_url, name="test", timeout=30.0)
    await database.open()
    await until(lambda: database.value(IN_WORK))
    doomed.kill()
    await doomed.wait()
    async with serving(installation.owner()):
        outcomes = await asyncio.gather(*waiting)
    assert {outcome.envelope.type for outcome in outcomes} == {NoteTaken.TYPE}
    notes = [(f"note-{number}", f"note {number}") for number in range(10)]
    assert await database.execute("SELECT id, text FROM notes ORDER BY id") == notes
    await database.close()

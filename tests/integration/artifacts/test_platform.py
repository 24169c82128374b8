"""Copies to the platform: done once and told once, wherever one of the two services stops in between."""

import hashlib
from typing import Any

from libs.contracts.errors import ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.artifacts import CopyArtifactToPlatform, RemoveArtifactFromPlatform
from tests.integration.artifacts.world import World, person

REPORT = b"# Report\nAll ferries ran."


def copy_of(artifact: dict[str, Any]) -> CopyArtifactToPlatform:
    return CopyArtifactToPlatform(session_id=artifact["session_id"], artifact_id=artifact["artifact_id"])


def removal_of(artifact: dict[str, Any]) -> RemoveArtifactFromPlatform:
    return RemoveArtifactFromPlatform(session_id=artifact["session_id"], artifact_id=artifact["artifact_id"])


async def ended(world: World, command_id: str) -> str | None:
    outcome = await world.outcome(command_id)
    return None if outcome is None else outcome.type.removeprefix("aes.artifacts.").removesuffix(".v1")


async def refused(world: World, command: Any, who: Identity | None = None) -> ErrorKind:
    return await refusal(world, await world.dispatch(command, who))


async def refusal(world: World, command_id: str) -> ErrorKind:
    outcome = await world.outcome(command_id)
    return CommandRejected.decode(outcome.payload).error.type


async def files(world: World) -> list[dict[str, Any]]:
    return await world.rows("ingestion", "SELECT * FROM files WHERE deleted_at IS NULL")


async def test_there_and_back(world: World) -> None:
    session = world.session()
    artifact = await world.generated(session, "report.md", REPORT)

    copied = await world.dispatch(copy_of(artifact))
    assert await ended(world, copied) is None, "it ends when the file is there"
    await world.settle()

    assert await ended(world, copied) == "artifact.copied"
    (file,) = await files(world)
    assert (await world.record(artifact))["platform_file_id"] == file["id"]
    assert (file["name"], file["created_by"], file["company_id"]) == ("report.md", "alice", "company-1")
    assert file["sha256"] == hashlib.sha256(REPORT).hexdigest()
    again = await world.dispatch(copy_of(artifact))
    assert await ended(world, again) == "artifact.copied", "at once"

    removed = await world.dispatch(removal_of(artifact))
    await world.settle()
    assert await ended(world, removed) == "artifact.removed"
    assert await files(world) == []
    assert (await world.record(artifact))["platform_file_id"] is None
    assert await ended(world, await world.dispatch(removal_of(artifact))) == "artifact.removed"


async def test_what_cannot_be_copied_or_removed(world: World) -> None:
    session = world.session()
    uploaded = await world.artifact(session, "a.txt", b"text")
    generated = await world.generated(session, "b.txt", b"text")

    assert await refused(world, copy_of(uploaded)) is ErrorKind.CONFLICT
    assert await refused(world, removal_of(generated)) is ErrorKind.CONFLICT
    assert await refused(world, copy_of({**generated, "artifact_id": new_id()})) is ErrorKind.NOT_FOUND
    assert await refused(world, copy_of({**generated, "session_id": world.session()})) is ErrorKind.NOT_FOUND
    for who in (person("bob"), person("alice", "company-2")):
        assert await refused(world, copy_of(generated), who) is ErrorKind.NOT_FOUND


async def test_two_at_once_are_one_copy(world: World) -> None:
    artifact = await world.generated(world.session(), "report.md", REPORT)
    commands = [await world.dispatch(copy_of(artifact)) for _ in range(2)]
    assert await refused(world, removal_of(artifact)) is ErrorKind.CONFLICT, "it is just being copied"

    await world.settle()

    assert [await ended(world, command) for command in commands] == ["artifact.copied"] * 2
    assert len(await files(world)) == 1


async def test_it_is_right_after_a_crash_at_any_step(world: World) -> None:
    artifact = await world.generated(world.session(), "report.md", REPORT)
    for command, outcome, count in ((copy_of, "artifact.copied", 1), (removal_of, "artifact.removed", 0)):
        command_id = new_id()
        # The command's offset was not committed: it comes again, also much later.
        for _ in range(2):
            await world.dispatch(command(artifact), command_id=command_id)
        # Sent, and the process died before it was marked: it is sent again.
        assert await world.send_commands() == 1
        await world.rows("artifacts", "UPDATE outbox SET published_at = NULL WHERE identity IS NOT NULL")
        assert await world.send_commands() >= 1
        # Both services die before their offsets are committed: whatever they were told is told again.
        for _ in range(3):
            await world.relay()
            world.forget_passed()
        # Nobody heard the outcome; whoever waits comes again.
        await world.dispatch(command(artifact), command_id=command_id)
        await world.settle()

        assert await ended(world, command_id) == outcome
        assert (await world.told(artifact)).count(outcome) == 1
        assert len(await files(world)) == count
    assert len(await world.rows("ingestion", "SELECT id FROM blobs WHERE state = 'uploading'")) == 0


async def test_a_refusal_of_the_other_service_ends_it_for_everybody_who_waits(world: World) -> None:
    session = world.session()
    artifact = await world.generated(session, "report.md", REPORT)
    command = await world.dispatch(copy_of(artifact))
    # What the file would be made of is gone before it is fetched.
    await world.lose_bytes(artifact)

    await world.settle()

    assert await ended(world, command) == "copy_to_platform.rejected"
    assert (await world.record(artifact))["platform_file_id"] is None
    assert await files(world) == []


async def test_a_copy_that_somebody_deleted_is_no_copy(world: World) -> None:
    artifact = await world.generated(world.session(), "report.md", REPORT)
    await world.dispatch(copy_of(artifact))
    await world.settle()
    (file,) = await files(world)
    removal = await world.dispatch(removal_of(artifact))
    # Deleted by somebody else just before: the command finds nothing.
    await world.rows("ingestion", "UPDATE files SET deleted_at = now(), blob_id = NULL WHERE id = %s", file["id"])

    await world.settle()

    assert await ended(world, removal) == "artifact.removed"
    again = await world.dispatch(copy_of(artifact))
    await world.settle()
    assert await ended(world, again) == "artifact.copied"
    (other,) = await files(world)
    assert other["id"] != file["id"]


async def test_a_session_that_ends_leaves_nobody_waiting_and_keeps_the_files(world: World) -> None:
    session = world.session()
    kept, removed = [await world.generated(session, name, REPORT) for name in ("kept.md", "removed.md")]
    for artifact in (kept, removed):
        await world.dispatch(copy_of(artifact))
    await world.settle()
    lost = await world.generated(session, "lost.md", b"# Other")
    copying, removing = await world.dispatch(copy_of(lost)), await world.dispatch(removal_of(removed))

    await world.delete_session(session)
    await world.settle()

    assert await ended(world, copying) == "copy_to_platform.rejected", "its bytes are gone"
    assert await ended(world, removing) == "artifact.removed", "it was on the record before the session ended"
    assert [file["name"] for file in await files(world)] == ["kept.md"]


async def test_a_session_that_ends_during_a_copy_leaves_no_file_that_nobody_was_told_of(world: World) -> None:
    session = world.session()
    artifact = await world.generated(session, "report.md", REPORT)
    kept = await world.generated(session, "kept.md", REPORT)
    await world.dispatch(copy_of(kept))
    await world.settle()
    copying, removing = await world.dispatch(copy_of(artifact)), await world.dispatch(removal_of(kept))
    # Carried out there, and not yet heard of here.
    assert await world.send_commands() == 2

    await world.delete_session(session)
    await world.settle()

    assert await ended(world, copying) == "artifact.copied"
    assert await ended(world, removing) == "artifact.removed"
    assert [file["name"] for file in await files(world)] == ["report.md"]


LOST = "UPDATE artifacts SET platform_sent_at = now() - interval '11 minutes'"


async def test_a_command_that_is_not_answered_is_sent_again_and_carried_out_once(world: World) -> None:
    artifact = await world.generated(world.session(), "report.md", REPORT)
    for command, outcome, count in ((copy_of, "artifact.copied", 1), (removal_of, "artifact.removed", 0)):
        command_id = await world.dispatch(command(artifact))
        assert await world.send_commands() == 1
        # The answer is lost, with everything else that the bus had.
        world._passed["ingestion"] = (await world.rows("ingestion", "SELECT max(id) AS last FROM outbox"))[0]["last"]
        assert await world.maintain("commands.resend") == 0, "too early"
        await world.rows("artifacts", LOST)
        assert await world.maintain("commands.resend") == 1
        assert await world.maintain("commands.resend") == 0, "it has just been sent"

        assert await world.send_commands() == 1
        first, second = (envelope for _, _, _, envelope in world.commands_sent()[-2:])
        assert (first.id, first.subject) == (second.id, second.subject)
        answers = [envelope for envelope in world.producer.envelopes if envelope.causation_id == first.id]
        assert len(answers) == 1, "ingestion repeats its answer"
        world._passed["ingestion"] = 0
        await world.settle()

        assert await ended(world, command_id) == outcome
        assert len(await files(world)) == count
    await world.rows("artifacts", LOST)
    assert await world.maintain("commands.resend") == 0, "everything is answered"


async def test_a_command_that_ingestion_took_up_too_late_is_a_refusal(world: World) -> None:
    artifact = await world.generated(world.session(), "report.md", REPORT)
    command = await world.dispatch(copy_of(artifact))
    # Ingestion was away for longer than commands are kept.
    await world.rows("artifacts", "UPDATE outbox SET created_at = now() - interval '4 days'")

    await world.settle()

    assert await refusal(world, command) is ErrorKind.TIMEOUT
    assert await files(world) == []
    again = await world.dispatch(copy_of(artifact))
    await world.settle()
    assert await ended(world, again) == "artifact.copied"

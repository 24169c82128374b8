import os
import subprocess

import psutil
import pytest

from deploy.local.processes import Identity, end_orphans, find_orphans
from tests.integration.deploy_local.conftest import ScriptPart
from tests.support.waiting import until


@pytest.fixture
def orphan(script_part: ScriptPart) -> subprocess.Popen[bytes]:
    command = script_part.command()
    return subprocess.Popen(command.arguments, stdout=subprocess.DEVNULL, **command.options())


def test_a_process_of_the_stack_is_found_and_ended(script_part: ScriptPart, orphan: subprocess.Popen[bytes]) -> None:
    assert [process.pid for process in find_orphans(script_part.directory, script_part.directory)[0]] == [orphan.pid]
    assert end_orphans(script_part.directory, script_part.directory) == 1
    assert not psutil.pid_exists(orphan.pid)
    assert end_orphans(script_part.directory, script_part.directory) == 0


def test_processes_of_another_stack_are_left_alone(script_part: ScriptPart, orphan: subprocess.Popen[bytes]) -> None:
    elsewhere = script_part.directory / "elsewhere"
    assert end_orphans(elsewhere, elsewhere) == 0
    assert orphan.poll() is None
    orphan.kill()
    orphan.wait()


def test_a_stale_pid_file_that_names_somebody_else_does_no_harm(script_part: ScriptPart) -> None:
    data = script_part.directory / "data"
    data.mkdir()
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")
    assert find_orphans(script_part.directory, script_part.directory) == ([], None)


async def test_an_ended_process_has_no_identity(script_part: ScriptPart, orphan: subprocess.Popen[bytes]) -> None:
    identity = Identity.of(orphan.pid)
    assert identity is not None
    assert identity.process() is not None
    orphan.kill()
    # Dead but not yet waited for: a zombie still has its pid.
    await until(lambda: identity.process() is None)
    assert psutil.pid_exists(orphan.pid)
    orphan.wait()
    assert Identity.of(orphan.pid) is None

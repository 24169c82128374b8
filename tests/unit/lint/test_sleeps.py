"""Sleeps are found in tests however they are imported, and in scripts within them; what only yields is not."""

from pathlib import Path

import pytest

from tools.lint.sleeps import findings


@pytest.fixture
def found(tmp_path: Path):
    def found(source: str, place: str = "tests/unit/test_it.py") -> list[str]:
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        return [finding.split(": ")[0] for finding in findings(tmp_path)]

    return found


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def test():\n    await asyncio.sleep(0.1)\n",
        "import time as clock\ndef test():\n    clock.sleep(seconds)\n",
        "from anyio import sleep as pause\nasync def test():\n    await pause(1)\n",
        "import trio\nasync def test():\n    await trio.sleep_forever()\n",
        "import time, threading\n\nthreading.Thread(target=time.sleep, args=(9,))\n",
        "def test(page):\n\n    page.wait_for_timeout(250)\n",
        "SCRIPT = '''\n  show();\n  await sleep(20);\n'''\n",
        "page.evaluate(\n\n    'new Promise((resolve) => setTimeout(resolve, 20))')\n",
    ],
)
def test_sleeps_are_found_where_they_are(found, source: str) -> None:
    assert found(source) == ["tests/unit/test_it.py:3"]


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def test():\n    await asyncio.sleep(0)\n    return asyncio.sleep(0, True)\n",
        "async def test(time):\n    await RetryPolicy(sleep=time.sleep).run(call)\n",
        "STATEMENT = 'SELECT pg_sleep(20)'\n",
        "TEXT = 'Walkers sleep (20 of them) in the hut; setTimeout(show, 0)'\n",
    ],
)
def test_other_things_are_left_alone(found, source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize("place", ["tests/support/waiting.py", "tests/outages/probes.py", "libs/retry/policy.py"])
def test_one_module_waits_and_rooms_run_by_name_keep_a_pace(found, place: str) -> None:
    assert found("import time\ntime.sleep(1)\n", place) == []


def test_a_script_may_stay_alive_where_that_is_its_job(found) -> None:
    place = "tests/integration/deploy_local/conftest.py"
    assert found("_WAIT = 'import time; time.sleep(600)'\n", place) == []
    assert found("import time\ntime.sleep(600)\n", place) == [f"{place}:2"]

"""The checks of code: what each finds with its place, and what it leaves alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.lint import private_members, sleeps, structure
from tools.lint.vocabulary import _retired_names

Found = Callable[..., list[str]]
LONG = "def long() -> None:\n" + "    pass\n" * 60
READER = "libs/eventing/_reader.py"
TEST = "tests/unit/test_it.py"
RETIRED = {"Patience": "RetryPolicy", "carry_out": "dispatch", "Keeper": "ProcessSupervisor"}


@pytest.fixture
def found(tmp_path: Path) -> Found:
    def found(check: Callable[[Path], list[str]], place: str, source: str) -> list[str]:
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        return list(check(tmp_path))

    return found


@pytest.mark.parametrize(
    "source",
    [
        "from aiokafka import AIOKafkaConsumer\ndef look(consumer):\n    return consumer._fetcher\n",
        "import psycopg\n\nclient.connection._pipeline = 1\n",
        "\n\nfrom uvicorn.protocols import _http\n",
        "\n\nimport starlette._utils\n",
        "\n\nfrom fastapi.routing import _merge\n",
        "from aiokafka import AIOKafkaConsumer\nclass Mine(AIOKafkaConsumer):\n    def it(self): return self._client\n",
        "from aiokafka.protocol.fetch import FetchRequest\n\nFetchRequest.builds = 1\n",
        "import uvicorn\n\nuvicorn.server.HANDLED = ()\n",
    ],
)
def test_private_members_of_libraries_are_found_where_they_are(found: Found, source: str) -> None:
    assert [finding.split(": ")[0] for finding in found(private_members.findings, READER, source)] == [f"{READER}:3"]


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
def test_sleeps_are_found_however_they_are_imported(found: Found, source: str) -> None:
    assert [finding.split(": ")[0] for finding in found(sleeps.findings, TEST, source)] == [f"{TEST}:3"]


@pytest.mark.parametrize(
    ("place", "source", "says"),
    [
        ("cli/long.py", LONG, "cli/long.py:1: long has 61 lines"),
        ("libs/a/long.py", f"class A:\n    x = 1\n{LONG}", "libs/a/long.py:3: long has 61 lines"),
        ("libs/utils.py", "", "libs/utils.py: the name doesn't describe the content"),
        ("tests/common/a.py", "", "tests/common/a.py: the name doesn't describe the content"),
        ("services/a/b.py", "@router.get('/')\ndef answer(): ...", "services/a/b.py:2: answer isn't a coroutine"),
        ("services/a/b.py", "def caller(): ...\nX = Depends(caller)", "services/a/b.py:1: caller isn't a coroutine"),
        ("benchmarks/a.py", "from tests.support import b", "benchmarks/a.py: tests.support"),
        ("tests/unit/test_a.py", "from benchmarks import b", "tests/unit/test_a.py: only tests of benchmarks"),
    ],
)
def test_what_is_out_of_place_is_found(found: Found, place: str, source: str, says: str) -> None:
    [finding] = found(structure.findings, place, source)
    assert finding.startswith(says)


@pytest.mark.parametrize(
    ("name", "retired"),
    [
        *((name, True) for name in ("_PATIENCE_SECONDS", "StorePatience", "_carry_out", "CarryOuts", "Keeper")),
        *((name, False) for name in ("lease_keeper", "impatient", "carry", "test_what_they_carry_out")),
    ],
)
def test_retired_names_are_found_as_parts_of_others(name: str, retired: bool) -> None:
    assert bool(list(_retired_names(Path("x.py"), f"{name} = 1\n", RETIRED))) is retired

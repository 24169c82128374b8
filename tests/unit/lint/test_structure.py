"""Long functions, junk drawers, handlers that are no coroutines, and imports between tests and benchmarks are found."""

from pathlib import Path

import pytest

from tools.lint.structure import findings

LONG = "def long() -> None:\n" + "    pass\n" * 60
SCREEN = "def screen() -> None:\n" + "    pass\n" * 59


def found(root: Path, place: str, source: str) -> list[str]:
    file = root / place
    file.parent.mkdir(parents=True)
    file.write_text(source)
    return list(findings(root))


@pytest.mark.parametrize(
    ("place", "source", "says"),
    [
        ("cli/long.py", LONG, "cli/long.py:1: long has 61 lines"),
        ("libs/a/long.py", f"class A:\n    x = 1\n{LONG}", "libs/a/long.py:3: long has 61 lines"),
        ("libs/utils.py", "", "libs/utils.py: the name says nothing"),
        ("tests/common/a.py", "", "tests/common/a.py: the name says nothing"),
        ("services/a/http.py", "@router.get('/')\ndef answer(): ...", "services/a/http.py:2: answer isn't a coroutine"),
        (
            "services/a/http.py",
            "def caller(): ...\nX = Depends(caller)",
            "services/a/http.py:1: caller isn't a coroutine",
        ),
        ("benchmarks/a.py", "from tests.support import b", "benchmarks/a.py: tests.support"),
        ("tests/unit/test_a.py", "from benchmarks import b", "tests/unit/test_a.py: only tests of benchmarks"),
    ],
)
def test_what_is_out_of_place_is_found(tmp_path: Path, place: str, source: str, says: str) -> None:
    [finding] = found(tmp_path, place, source)
    assert finding.startswith(says)


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("cli/screen.py", SCREEN),
        ("tests/unit/test_long.py", LONG),
        ("libs/common_words.py", ""),
        ("services/a/http.py", "@router.get('/')\nasync def answer(): ...\nX = Security(answer)"),
        ("services/a/plain.py", "def answer(): ..."),
        ("benchmarks/a.py", "from tests.servers import b"),
        ("tests/unit/benchmarks/test_a.py", "from benchmarks import b"),
    ],
)
def test_what_is_in_its_place_is_left_alone(tmp_path: Path, place: str, source: str) -> None:
    assert not found(tmp_path, place, source)

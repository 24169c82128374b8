import stat
from pathlib import Path

import pytest

from deploy.local.files import read_json, tail, write_atomically


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_atomically(file, "old", mode=0o600)
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "\udc80")
    assert file.read_text() == "old"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_json_that_is_no_object_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("[1]")
    (tmp_path / "half").write_text('{"a":')
    assert [read_json(tmp_path / name) for name in ("list", "half", "missing")] == [{}, {}, {}]


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert tail(log, 2) == ["line 998", "line 999"]
    assert tail(log, 0) == []
    assert tail(log, 100, most_bytes=20) == ["line 998", "line 999"]
    began = log.stat().st_size - len("line 999\n")
    assert tail(log, 100, since=began) == ["line 999"]
    assert tail(tmp_path / "missing", 5) == []

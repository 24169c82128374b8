"""The run before a change lands, with stages that do nothing."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
AES = """
import sys
print("did", *sys.argv[1:])
if sys.argv[1:] == ["test"]:
    print("FAILED tests/test_it.py::test_it - assert 1 == 2")
    sys.exit("= 1 failed, 3 passed in 2.00s =")
"""


def test_a_failed_stage_fails_the_run_is_not_tried_again_and_keeps_no_other_from_running(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "aes").write_text(AES)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("chromium", "tesseract", "promtool", "go"):
        (programs / name).symlink_to("/bin/true")
    interpreter = tmp_path / "python"
    interpreter.write_text('#!/bin/sh\necho did "$@"\n')
    interpreter.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "AES_PYTHON": str(interpreter)}
    done = subprocess.run([tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    output, _, closing = done.stdout.partition("== Failures\n")
    ran = [line for line in output.splitlines() if line.startswith("did")]
    assert ran == ["did test --version", "did -m tests.servers", "did check", "did test", "did test --slow-only"]
    assert closing.startswith("FAILED tests/test_it.py::test_it - assert 1 == 2\n")
    table = [line.split() for line in closing.splitlines()[-6:]]
    assert [(row[0], row[2]) for row in table] == [
        ("programs", "passed"), ("environment", "passed"), ("servers", "passed"), ("check", "passed"),
        ("tests", "failed"), ("slow-tests", "passed"),
    ]  # fmt: skip
    assert "1 failed, 3 passed in 2.00s" in closing

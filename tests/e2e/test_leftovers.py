"""Test runs that were killed must not keep later ones from running."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.e2e.running_stack import temporary_home


@pytest.fixture
def leftover() -> Path:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    home = Path(tempfile.mkdtemp(prefix="aes-e2e-", dir="/tmp"))
    (home / "owner.json").write_text(json.dumps([ended.pid, 1.0]))
    return home


def test_what_a_checkout_that_is_gone_left_is_cleared_away(leftover: Path) -> None:
    (leftover / "cache").symlink_to(leftover / "gone" / "cache")
    with temporary_home(kept=False) as home:
        assert home.is_dir()
        assert not leftover.exists()


def test_what_cannot_be_ended_is_told_and_cleared_away(leftover: Path) -> None:
    (leftover / "logs").write_text("a file where a directory should be")
    with pytest.warns(UserWarning, match=leftover.name), temporary_home(kept=False):
        assert not leftover.exists()

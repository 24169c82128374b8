"""Test runs that were killed must not keep later ones from running."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.running_stack import temporary_home
from tests.support.server_directories import new_directory


@pytest.fixture
def dead_home() -> Path:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    home = new_directory("aes-e2e-")
    (home / "owner.json").write_text(json.dumps([ended.pid, 1.0]))
    return home


def test_what_a_checkout_that_is_gone_left_is_cleared_away(dead_home: Path) -> None:
    (dead_home / "cache").symlink_to(dead_home / "gone" / "cache")
    with temporary_home(kept=False) as home:
        assert home.is_dir()
        assert not dead_home.exists()


def test_what_cannot_be_ended_is_told_and_cleared_away(dead_home: Path) -> None:
    (dead_home / "logs").write_text("a file where a directory should be")
    with pytest.warns(UserWarning, match=dead_home.name), temporary_home(kept=False):
        assert not dead_home.exists()

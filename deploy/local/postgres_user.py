"""Runs PostgreSQL as an unprivileged user when the stack is started by root, which PostgreSQL refuses."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import StackError

_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True)
class SystemUser:
    uid: int
    gid: int

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)


def unprivileged_user() -> SystemUser | None:
    """The user that PostgreSQL has to run as, None when the current one will do."""
    if os.geteuid() != 0:
        return None
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(entry.pw_uid, entry.pw_gid)
    raise StackError(
        "PostgreSQL does not run as root and the machine has no user 'postgres' or 'nobody'.",
        "Run the command as an ordinary user.",
    )


def make_reachable(path: Path) -> list[Path]:
    """Let other users pass through (not list) the directories above `path`; returns those it changed."""
    changed = []
    for directory in path.resolve().parents:
        mode = directory.stat().st_mode
        if not mode & stat.S_IXOTH:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
            changed.append(directory)
    return changed


def make_readable(tree: Path) -> None:
    """Let other users read and run an installed program, whatever the umask was when it was installed."""
    for directory, _, files in os.walk(tree):
        _allow(Path(directory), stat.S_IROTH | stat.S_IXOTH)
        for file in files:
            path = Path(directory, file)
            if not path.is_symlink():
                executable = path.stat().st_mode & stat.S_IXUSR
                _allow(path, stat.S_IROTH | (stat.S_IXOTH if executable else 0))


def _allow(path: Path, bits: int) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & bits != bits:
        path.chmod(mode | bits)

"""Paths of the embedded stack's state."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Home:
    """The state directory, `.aes/` in the project unless `AES_HOME` names another."""

    root: Path

    @classmethod
    def from_environment(cls) -> "Home":
        configured = os.environ.get("AES_HOME")
        return cls(Path(configured).expanduser().resolve() if configured else PROJECT_ROOT / ".aes")

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def kafka(self) -> Path:
        return self.root / "kafka"

    @property
    def objects(self) -> Path:
        return self.root / "objects"

    @property
    def cache(self) -> Path:
        """Downloads; they survive a purge because they can be fetched again but need a network."""
        return self.root / "cache"

    @property
    def state_file(self) -> Path:
        return self.root / "state.json"

    @property
    def supervisor_lock(self) -> Path:
        return self.root / "supervisor.lock"

    @property
    def start_lock(self) -> Path:
        return self.root / "up.lock"

    @property
    def ports_file(self) -> Path:
        return self.root / "ports.json"

    @property
    def credentials_file(self) -> Path:
        return self.root / "credentials.json"

    @property
    def development_key_file(self) -> Path:
        return self.root / "development-key"

    @property
    def restore_marker(self) -> Path:
        """Marker of a restore in progress, or of one that failed."""
        return self.root / "restoring"

    def log_of(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def create(self) -> None:
        """Makes the directories; other users can at most pass through, as PostgreSQL's user has to."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(stat.S_IMODE(self.root.stat().st_mode) & ~0o066)
        self.logs.mkdir(parents=True, exist_ok=True)
        # Through a link to another disk as well, whose directory may have been cleared away.
        Path(os.path.realpath(self.cache)).mkdir(parents=True, exist_ok=True)
        # Keeps the state out of version control wherever the directory is.
        (self.root / ".gitignore").write_text("*\n")

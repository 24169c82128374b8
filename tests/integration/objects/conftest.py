"""Both object stores: a directory, and a bucket of a real S3 server."""

import asyncio
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.local.foreground import start
from libs.objects import LocalObjects, ObjectStore, S3Objects
from tests.support.s3_server import NoS3Server, S3Server, binary


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    try:
        binary()
    except NoS3Server as reason:
        pytest.skip(str(reason))
    server = S3Server(tmp_path_factory.mktemp("s3"), dict(os.environ))
    # In a thread: the loop of the test that asks for it is running here.
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(asyncio.run, start(server, lambda _: None)).result()
    yield server
    running.stop()


@pytest.fixture(params=["directory", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    made: ObjectStore
    if request.param == "directory":
        made = LocalObjects(tmp_path / "objects")
    else:
        server: S3Server = request.getfixturevalue("s3_server")
        made = S3Objects(server.settings(f"bucket-{secrets.token_hex(4)}"))
    await made.start()
    return made

"""Both object stores: a directory, and a bucket of a real S3 server."""

import secrets
from pathlib import Path

import pytest

from libs.objects import LocalObjects, ObjectStore
from libs.objects.s3 import S3Objects
from tests.support.s3_server import S3Server


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

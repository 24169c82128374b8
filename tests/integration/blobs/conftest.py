"""Both object stores: a directory, and a bucket of a real S3 server."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.objects import ObjectStore, open_store
from libs.persistence import Database
from tests.integration.blobs.owner import Owner, create_tables
from tests.support.s3_server import S3Server


@pytest.fixture(params=["directory", "s3"])
def objects_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return f"file:{tmp_path}/objects"
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = f"bucket-{secrets.token_hex(4)}"
    return f"s3://tests:{server.secret}@127.0.0.1:{server.port}/{bucket}?secure=false"


@pytest.fixture
async def store(objects_url: str) -> ObjectStore:
    store = open_store(objects_url)
    await store.start()
    return store


@pytest.fixture
async def owner(database_url: str, store: ObjectStore) -> AsyncIterator[Owner]:
    database = Database(database_url, name="owner")
    await database.open()
    await create_tables(database)
    yield Owner(database, store)
    await database.close()

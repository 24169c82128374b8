"""An object store in a bucket of any S3 server."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast
from urllib.parse import urlsplit

import urllib3
from minio import Minio
from minio.error import MinioException, S3Error

from libs.contracts.errors import StoreUnavailable
from libs.objects._pipe import Pipe
from libs.objects._store import (
    PIECE_BYTES,
    Entry,
    ObjectMissing,
    Pieces,
    Written,
    checked,
    checked_prefix,
)

T = TypeVar("T")
_PART_BYTES: Final = 5 * 1024 * 1024
_CONNECTIONS: Final = 32
_LIST_PAGE: Final = 500
# 409 can mean that the server is removing a directory while another object is being written there.
_RETRIES: Final = urllib3.Retry(
    total=4, backoff_factor=0.1, status_forcelist=[409, 500, 502, 503, 504], raise_on_status=False
)
_MISSING: Final = frozenset({"NoSuchKey", "NoSuchObject", "NotFound"})
_BUCKET_IS_THERE: Final = frozenset({"BucketAlreadyOwnedByYou", "BucketAlreadyExists"})


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """The settings of an S3 store. ``endpoint`` is ``host:port``. ``public`` is the server's base URL in links."""

    endpoint: str
    bucket: str
    access_key: str
    secret_key: str = field(repr=False)
    secure: bool = True
    region: str = "us-east-1"
    public: str = ""


class S3Objects:
    def __init__(self, settings: S3Settings) -> None:
        self._bucket = settings.bucket
        self._client = _client(
            settings,
            settings.endpoint,
            settings.secure,
            http_client=urllib3.PoolManager(
                maxsize=_CONNECTIONS,
                timeout=urllib3.Timeout(connect=5, read=60),
                retries=_RETRIES,
            ),
        )
        # The signature covers the host, so links need their own client, which makes no calls.
        public = urlsplit(settings.public)
        self._signer = _client(settings, public.netloc, public.scheme == "https") if settings.public else self._client

    async def start(self) -> None:
        await _in_thread(self._make_bucket)

    def _make_bucket(self) -> None:
        if self._client.bucket_exists(self._bucket):
            return
        try:
            self._client.make_bucket(self._bucket)
        except S3Error as problem:
            if problem.code not in _BUCKET_IS_THERE:
                raise

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:  # noqa: ARG002
        checked(key)
        pipe = Pipe(pieces, asyncio.get_running_loop())
        storing = asyncio.create_task(_in_thread(lambda: self._put(key, pipe)))
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            pipe.cancel()
            await asyncio.wait({storing})
            if not storing.cancelled() and storing.exception() is None:
                await self.delete(key)
            raise
        except Exception:
            if pipe.problem is not None:
                raise pipe.problem from None
            raise
        return Written(pipe.size, pipe.sha256)

    def _put(self, key: str, pipe: Pipe) -> None:
        self._client.put_object(
            self._bucket,
            key,
            cast(BinaryIO, pipe),
            length=-1,
            part_size=_PART_BYTES,
            num_parallel_uploads=1,  # the client's thread pool leaks when reading fails
        )

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> Pieces:
        checked(key)
        if length == 0:
            return _nothing()
        response = await _in_thread(
            lambda: self._client.get_object(self._bucket, key, offset=start, length=length or 0)
        )
        return _pieces(response)

    @asynccontextmanager
    async def as_file(self, key: str) -> AsyncIterator[Path]:
        with tempfile.TemporaryDirectory(prefix="aes-object-") as directory:
            path = Path(directory) / "object"
            await _in_thread(lambda: self._client.fget_object(self._bucket, checked(key), str(path)))
            yield path

    async def size(self, key: str) -> int | None:
        checked(key)
        try:
            return (await _in_thread(lambda: self._client.stat_object(self._bucket, key))).size or 0
        except ObjectMissing:
            return None

    async def delete(self, key: str) -> None:
        checked(key)
        await _in_thread(lambda: self._client.remove_object(self._bucket, key))

    def link(self, key: str, *, seconds: int, content_type: str, disposition: str, label: str) -> str | None:
        url: str = self._signer.presigned_get_object(
            self._bucket,
            checked(key),
            expires=timedelta(seconds=seconds),
            response_headers={
                "response-content-type": content_type,
                "response-content-disposition": disposition,
            },
            extra_query_params={"x-label": label},
        )
        return url

    async def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        listing = self._client.list_objects(self._bucket, prefix=checked_prefix(prefix), recursive=True)

        def page() -> list[Entry]:
            found = []
            for item in listing:
                if item.object_name:
                    written_at = item.last_modified or datetime.now(UTC)
                    found.append(Entry(item.object_name, item.size or 0, written_at))
                if len(found) == _LIST_PAGE:
                    break
            return found

        while batch := await _in_thread(page):
            for entry in batch:
                yield entry


def _client(settings: S3Settings, endpoint: str, secure: bool, http_client: urllib3.PoolManager | None = None) -> Minio:
    return Minio(
        endpoint=endpoint,
        access_key=settings.access_key,
        secret_key=settings.secret_key,
        secure=secure,
        region=settings.region,
        http_client=http_client,
    )


async def _pieces(response: Any) -> Pieces:
    try:
        while piece := await _in_thread(lambda: response.read(PIECE_BYTES)):
            yield piece
    finally:
        response.close()
        response.release_conn()


async def _nothing() -> Pieces:
    return
    yield b""


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except S3Error as problem:
        if problem.code in _MISSING:
            raise ObjectMissing(problem.object_name or "") from problem
        raise StoreUnavailable(f"the S3 server returned {problem.code}") from problem
    except (MinioException, urllib3.exceptions.HTTPError, OSError) as problem:
        raise StoreUnavailable(f"the S3 server doesn't respond: {type(problem).__name__}") from problem

"""The S3 store works with a remote server, whose objects others change, too."""

import asyncio

import pytest
from aiohttp import web

from libs.contracts.errors import StoreUnavailable
from libs.objects import Entry, one_piece, open_store
from libs.objects.s3 import S3Objects, S3Settings


class Contended:
    """An S3 server at whose objects others work: so many attempts at putting one come at a bad moment."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.stored = b""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.conflicts:
            self.conflicts -= 1
            problem = b"<Error><Code>OperationAborted</Code><Message>Try again.</Message></Error>"
            return web.Response(status=409, body=problem, content_type="application/xml")
        self.stored = body
        return web.Response(headers={"ETag": '"0"'})


@pytest.mark.parametrize(("conflicts", "is_stored"), [(2, True), (100, False)])
async def test_a_put_that_meets_another_operation_is_repeated(conflicts: int, is_stored: bool) -> None:
    contended = Contended(conflicts)
    app = web.Application()
    app.router.add_put("/{path:.*}", contended.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"127.0.0.1:{runner.addresses[0][1]}"
    settings = S3Settings(endpoint=endpoint, bucket="bucket", access_key="a", secret_key="b" * 8, secure=False)
    try:
        if is_stored:
            await S3Objects(settings).put("k", one_piece(b"content"))
        else:
            with pytest.raises(StoreUnavailable, match="OperationAborted"):
                await S3Objects(settings).put("k", one_piece(b"content"))
    finally:
        await runner.cleanup()
    assert (b"content" in contended.stored) is is_stored


async def test_links_name_the_public_address_of_the_server() -> None:
    store = open_store("s3://key:secret@127.0.0.1:9000/bucket?secure=false&public=https://files.example.com")
    url = store.link("k", seconds=60, content_type="text/plain", disposition="attachment", label="l")
    assert url is not None
    assert url.startswith("https://files.example.com/bucket/k?")


async def test_a_server_that_is_away_is_an_outage_for_every_operation() -> None:
    settings = S3Settings(endpoint="127.0.0.1:1", bucket="bucket", access_key="a", secret_key="s" * 8, secure=False)
    store = S3Objects(settings)

    async def listed() -> list[Entry]:
        return [entry async for entry in store.entries("")]

    operations = (store.start(), store.put("k", one_piece(b"x")), store.open("k"), store.size("k"), store.delete("k"))
    outcomes = await asyncio.gather(*operations, listed(), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 6

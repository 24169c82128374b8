import httpx
import pytest
from aes_client.models import TokenReply

from cli.connection import Connection
from cli.studio_link import studio_link
from tests.support.cli_service import document, serve

CONNECTION = Connection("http://127.0.0.1:9", "aes_key")


def test_the_token_stands_in_the_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, lambda _: httpx.Response(200, json=document(TokenReply, access_token="a.b.c")))
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/#token=a.b.c"
    assert studio_link(CONNECTION, "http://agents.example") == "http://agents.example/studio/#token=a.b.c"


def test_without_a_token_it_is_the_plain_address_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/"
    pauses = serve(monkeypatch, lambda _: httpx.Response(503))
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/"
    assert pauses == []

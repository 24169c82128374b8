import httpx
import pytest

from cli.connection import Connection
from cli.studio_link import studio_link

CONNECTION = Connection("http://127.0.0.1:9", "aes_key")


def answer(monkeypatch: pytest.MonkeyPatch, reply: httpx.Response) -> None:
    def client(_: Connection, timeout: float = 1) -> httpx.Client:
        return httpx.Client(base_url="http://x/api/v1", transport=httpx.MockTransport(lambda _: reply))

    monkeypatch.setattr(Connection, "client", client)


def test_the_token_stands_in_the_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, httpx.Response(200, json={"access_token": "a.b.c"}))
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/#token=a.b.c"
    assert studio_link(CONNECTION, "http://agents.example") == "http://agents.example/studio/#token=a.b.c"


def test_without_a_token_it_is_the_plain_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/"
    answer(monkeypatch, httpx.Response(503))
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/"

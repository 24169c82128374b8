from pathlib import Path

import httpx
import pytest
from aes_client.models import TokenReply
from typer.testing import CliRunner

from cli import up
from cli.connection import Connection
from cli.studio_link import studio_link
from deploy.local.state import StackState
from tests.support.cli_service import document, serve

CONNECTION = Connection("http://127.0.0.1:9", "aes_key")


def test_the_token_stands_in_the_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, lambda _: httpx.Response(200, json=document(TokenReply, access_token="a.b.c")))
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/#token=a.b.c"
    assert studio_link(CONNECTION, "http://agents.example") == "http://agents.example/studio/#token=a.b.c"


def test_up_prints_the_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve(monkeypatch, lambda _: httpx.Response(200, json=document(TokenReply, access_token="a.b.c")))
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    monkeypatch.setattr(up, "bring_up", lambda *_: (StackState(base_url="http://127.0.0.1:9"), True))
    monkeypatch.setattr(up, "development_key", lambda _: "aes_key")
    shown = CliRunner().invoke(up.app, [])
    assert "http://127.0.0.1:9/studio/#token=a.b.c" in shown.output, shown.output


def test_without_a_token_it_is_the_plain_address_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/"
    pauses = serve(monkeypatch, lambda _: httpx.Response(503))
    assert studio_link(CONNECTION) == "http://127.0.0.1:9/studio/"
    assert pauses == []

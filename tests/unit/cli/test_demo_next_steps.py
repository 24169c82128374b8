import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cli.connection import Connection
from cli.demo.command import Running, show_next_steps
from cli.demo.view import Screen


@pytest.mark.parametrize("public", ["", "http://127.0.0.1:8080"])
def test_a_demo_in_a_container_names_the_address_of_its_users(monkeypatch: pytest.MonkeyPatch, public: str) -> None:
    monkeypatch.setenv("AES_PUBLIC_URL", public)
    shown = io.StringIO()
    part = SimpleNamespace(questions=["What is it?"], agent="examples/agents/analyst.yaml")
    agent = SimpleNamespace(part=part)
    talk: Any = SimpleNamespace(session=SimpleNamespace(session_id="s1"), agent=agent)
    running = Running(Connection("http://gateway:8000", "key"), None, None)
    show_next_steps(Screen(console=Console(file=shown, width=200)), running, talk)
    assert f"AES={public or 'http://gateway:8000'}/api/v1" in shown.getvalue()
    assert f"{public or 'http://gateway:8000'}/studio/" in shown.getvalue()

"""Step 6: the history of the sessions."""

from typing import Any

from rich.text import Text

from cli.demo.api import Api
from cli.demo.conversation import Talk
from cli.demo.screen import Screen


def show(screen: Screen, api: Api, talks: list[Talk]) -> list[dict[str, Any]]:
    """Returns the pages of messages, one per session."""
    screen.heading(6, "Read the history", "GET /api/v1/runtime/{session_id}/messages/")
    pages = []
    for talk in talks:
        page = api.get(f"/runtime/{talk.session_id}/messages/")
        pages.append({"session_id": talk.session_id, **page})
        screen.line(f"session {talk.letter} · {page['total']} messages", "dim")
        for message in page["messages"]:
            moment = Text(message["timestamp"][11:23], style="dim")
            screen.row(moment, Text(f"{message['role']:<9}"), Text(" ".join(message["content"].split())))
    return pages

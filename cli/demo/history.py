"""Step 4: what the sessions remember."""

from typing import Any

from rich.table import Table
from rich.text import Text

from cli.demo.api import Api
from cli.demo.conversation import Talk
from cli.demo.screen import Screen


def show(screen: Screen, api: Api, talks: list[Talk]) -> list[dict[str, Any]]:
    """Returns the pages of messages, one per session."""
    screen.heading(4, "Read the history", "GET /api/v1/runtime/{session_id}/messages/")
    pages = []
    for talk in talks:
        page = api.get(f"/runtime/{talk.session_id}/messages/")
        pages.append({"session_id": talk.session_id, **page})
        screen.line(f"session {talk.session_id} · {page['total']} messages", "dim")
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, width=9)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for message in page["messages"]:
            content = Text(" ".join(message["content"].split()))
            table.add_row(Text(message["timestamp"][11:23], style="dim"), message["role"], content)
        screen.table(table)
    return pages

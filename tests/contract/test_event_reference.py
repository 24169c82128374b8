from pathlib import Path

from libs.contracts.asyncapi import published_messages
from libs.contracts.event_reference import pages
from libs.contracts.messages import Command

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "events"


def test_the_pages_on_events_are_up_to_date() -> None:
    written = {page.name: page.read_text() for page in FOLDER.glob("*.md") if page.name != "README.md"}
    assert written == pages(), "run: python -m libs.contracts.event_reference docs/reference/events"


def test_they_name_every_event() -> None:
    text = "".join(pages().values())
    events = [name for name, (model, _) in published_messages().items() if not issubclass(model, Command)]

    assert [name for name in events if f"`{name}`" not in text] == []

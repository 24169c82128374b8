from libs.contracts.asyncapi import published_messages
from libs.contracts.messages import Command
from tools.reference import events
from tools.reference.pages import DOCS, pages


def test_generating_the_pages_again_changes_nothing() -> None:
    outdated = [page.name for page, text in pages().items() if page.read_text() != text]

    assert outdated == [], "run: python -m tools.reference"


def test_no_page_is_left_of_a_service_without_events() -> None:
    written = {page.name for page in (DOCS / "reference/events").glob("*.md")}

    assert written == {"README.md", *events.pages()}


def test_the_pages_on_events_name_every_event() -> None:
    text = "".join(events.pages().values())
    published = [name for name, (model, _) in published_messages().items() if not issubclass(model, Command)]

    assert [name for name in published if f"`{name}`" not in text] == []

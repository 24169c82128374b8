from pathlib import Path

import pytest

from libs.contracts.asyncapi import published_messages
from libs.contracts.messages import Command
from tools.reference import events
from tools.reference.pages import DOCS, pages

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generating_a_page_again_changes_nothing(page: Path) -> None:
    assert page.read_text() == PAGES[page], "run: python -m tools.reference"


def test_no_page_is_left_of_a_service_without_events() -> None:
    assert {page for page in (DOCS / "reference/events").glob("*.md") if page.name != "README.md"} <= PAGES.keys()


def test_the_pages_on_events_name_every_event() -> None:
    text = "".join(events.pages().values())
    published = [name for name, (model, _) in published_messages().items() if not issubclass(model, Command)]

    assert [name for name in published if f"`{name}`" not in text] == []

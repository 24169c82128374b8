from pathlib import Path

import pytest

from libs.contracts.asyncapi import published_messages
from libs.contracts.event_reference import render
from libs.contracts.messages import Command

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text()


def test_the_page_on_events_is_up_to_date() -> None:
    assert render(PAGE) == PAGE, "run: python -m libs.contracts.event_reference docs/events.md"


def test_it_names_every_event() -> None:
    events = [name for name, (model, _) in published_messages().items() if not issubclass(model, Command)]

    assert [name for name in events if f"`{name}`" not in PAGE] == []


def test_a_page_without_a_generated_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no generated part"):
        render("# Events")

from typing import Any, cast

import pytest

from cli.demo import timeline
from cli.demo.api import Api
from deploy.local.errors import StackError


class FakeApi:
    """Answers one page after the other; the last one is repeated."""

    def __init__(self, *pages: list[tuple[int, str, str]]) -> None:
        self.pages = list(pages)
        self.asked: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        page = self.pages.pop(0) if self.pages else []
        events = [{"position": position, "type": kind, "subject": subject} for position, kind, subject in page]
        return {"events": events, "has_more": False, "next": events[-1]["position"] if events else 9}


def test_the_timeline_is_read_until_the_turns_have_ended() -> None:
    api = FakeApi([(3, "turn.started", "a"), (5, "turn.completed", "a")], [], [(9, "turn.failed", "b")])
    found = timeline.read(cast(Api, api), "mine", {"a", "b"}, sleep=lambda _: None)
    assert [event["position"] for event in found] == [3, 5, 9]
    assert [path.split("after=")[1].split("&")[0] for path in api.asked] == ["0", "5", "9"]


def test_a_timeline_that_gets_nothing_ends_the_demo() -> None:
    with pytest.raises(StackError, match="timeline"):
        timeline.read(cast(Api, FakeApi()), "mine", {"a"}, sleep=lambda _: None)

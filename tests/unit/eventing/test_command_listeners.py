"""Listeners to the events of a command."""

from libs.contracts.envelope import Envelope
from libs.contracts.timestamps import now_text
from libs.eventing._command_listeners import CommandListeners


def event(command_id: str | None) -> Envelope:
    return Envelope(
        id="event",
        type="aes.notes.note.taken.v1",
        source="/aes/notes",
        subject="n",
        time=now_text(),
        correlation_id="label",
        company_id="company-1",
        causation_id=command_id,
    )


class Ear:
    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def listen(self, _envelope: Envelope, payload: bytes) -> None:
        self.heard.append(payload)


def test_each_listener_of_a_command_is_told_of_its_events_only() -> None:
    listeners, one, two, other = CommandListeners(), Ear(), Ear(), Ear()
    listeners.add("a", one.listen)
    listeners.add("a", two.listen)
    listeners.add("b", other.listen)
    listeners.publish(event("a"), b"1")
    listeners.publish(event(None), b"2")
    listeners.publish(event("c"), b"3")
    assert (one.heard, two.heard, other.heard) == ([b"1"], [b"1"], [])


def test_one_that_was_removed_leaves_nothing_behind() -> None:
    listeners, one, two = CommandListeners(), Ear(), Ear()
    listeners.add("a", one.listen)
    listeners.add("a", two.listen)
    listeners.remove("a", one.listen)
    listeners.remove("a", one.listen)
    assert listeners.has_any("a")
    listeners.remove("a", two.listen)
    listeners.remove("b", two.listen)
    assert not listeners.has_any("a")
    assert not listeners.has_any(None)
    assert listeners._by_command == {}


def test_a_listener_may_end_with_what_it_is_told_and_one_that_fails_disturbs_nobody() -> None:
    listeners, last = CommandListeners(), Ear()

    def once(_envelope: Envelope, _payload: bytes) -> None:
        listeners.remove("a", once)

    def fail(_envelope: Envelope, _payload: bytes) -> None:
        raise RuntimeError

    for listener in (once, fail, last.listen):
        listeners.add("a", listener)
    listeners.publish(event("a"), b"1")
    listeners.remove("a", fail)
    listeners.publish(event("a"), b"2")
    assert last.heard == [b"1", b"2"]

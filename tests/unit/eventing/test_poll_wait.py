"""Waits of polls."""

from libs.eventing._poll_wait import PollWait


def test_polls_wait_longer_when_there_has_been_nothing_to_do_for_a_while() -> None:
    wait = PollWait()
    assert wait.seconds(100.0, busy=False) == 0.5
    assert wait.seconds(109.9, busy=False) == 0.5
    assert wait.seconds(110.0, busy=False) == 5.0


def test_something_to_do_makes_them_short_again() -> None:
    wait = PollWait()
    wait.seconds(100.0, busy=False)
    assert wait.seconds(200.0, busy=True) == 0.5
    assert wait.seconds(209.9, busy=False) == 0.5
    assert wait.seconds(210.0, busy=False) == 5.0

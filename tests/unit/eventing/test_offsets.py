from libs.eventing._consumer import OffsetTracker


def test_the_position_moves_past_a_done_prefix_only() -> None:
    tracker = OffsetTracker()
    for offset in (5, 6, 9):
        tracker.start(offset)
    assert tracker.position is None
    tracker.finish(6)
    assert (tracker.position, tracker.unfinished) == (None, 2)
    tracker.finish(5)
    assert tracker.position == 7
    tracker.finish(9)
    assert (tracker.position, tracker.unfinished) == (10, 0)

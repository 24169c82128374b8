"""The positions where purges go on, within a pass and in the next one."""

from libs.eventing._retention import EMPTY_BATCH, Position, PurgedBatch, _Progress


def batch(last: int, *, kept: int = 0) -> PurgedBatch:
    return PurgedBatch(10 - kept, kept, Position(last), has_more=True)


def after_pass(progress: _Progress, *batches: PurgedBatch, by_age: bool = True) -> Position | None:
    """The position where the pass after that of these batches begins."""
    for each in batches:
        progress.advance(each, by_age=by_age)
    progress.begin()
    return progress.at


def test_a_pass_begins_after_what_is_gone() -> None:
    progress = _Progress()

    assert after_pass(progress, batch(1), batch(2), EMPTY_BATCH) == Position(2)
    assert after_pass(progress, EMPTY_BATCH) == Position(2)
    assert after_pass(progress, batch(3)) == Position(3)


def test_a_pass_begins_before_rows_that_were_kept_until_they_are_gone() -> None:
    progress = _Progress()

    assert after_pass(progress, batch(1), batch(2, kept=1), batch(3)) == Position(1)
    assert after_pass(progress, batch(2, kept=1), batch(3)) == Position(1)
    assert after_pass(progress, batch(2), batch(3)) == Position(3)


def test_batches_go_on_after_rows_that_were_kept() -> None:
    progress = _Progress()
    progress.advance(batch(1, kept=10), by_age=True)

    assert progress.at == Position(1)


def test_each_pass_begins_at_the_first_row_where_others_can_appear_before_those_that_are_gone() -> None:
    assert after_pass(_Progress(), batch(1), batch(2), by_age=False) is None

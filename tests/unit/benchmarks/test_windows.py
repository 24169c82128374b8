import pytest

from benchmarks.load import Outcome, Side
from benchmarks.report import percentile
from benchmarks.windows import Target, Window, ratio


def a_window(side: Side, number: int, *, rate: float = 1.0, **cpu: float) -> Window:
    return Window("s", side, number, 100, rate, 10.0, 20.0, 30.0, None, None, cpu)


@pytest.mark.parametrize(
    ("values", "percent", "expected"), [([7.0], 99, 7.0), ([4.0, 1.0, 2.0, 3.0], 50, 2.5), ([0.0, 10.0], 99, 9.9)]
)
def test_percentile_lies_between_the_nearest_ranks(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == pytest.approx(expected)


def test_a_window_counts_the_turns_that_were_done_not_those_that_were_asked_for() -> None:
    measured = Window.of("s", "aes", 1, Outcome(2.0, [10.0, 20.0, 30.0, 40.0]), {"gateway": 0.004}, 0.0)

    assert (measured.turns, measured.rate, measured.p50) == (4, 2.0, 25.0)
    assert measured.cpu == {"gateway": pytest.approx(1.0)}
    assert (measured.first_text_p50, measured.creation_p50) == (None, None)


def test_a_ratio_pairs_the_windows_of_one_round_so_that_a_machine_that_slows_down_does_not_show() -> None:
    speeds = {1: (200.0, 100.0), 2: (150.0, 50.0), 3: (225.0, 25.0)}
    windows = [a_window("aes", number, rate=own) for number, (own, _) in speeds.items()]
    windows += [a_window("reference", number, rate=other) for number, (_, other) in speeds.items()]

    assert ratio(windows, "s", "rate") == pytest.approx(3.0)
    assert ratio([a_window("aes", 1), a_window("reference", 2)], "s", "rate") is None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target("gateway and runtime", "s", "own_cpu", 4.0, relative=False), 3.5),
        (Target("the stack but what measures it", "s", "stack_cpu", 4.0, relative=False), 4.0),
        (Target("the stack to the reference's process", "s", "side_cpu", 0.5), 0.5),
    ],
)
def test_targets_on_cpu(target: Target, expected: float) -> None:
    windows = [
        a_window("aes", 1, gateway=1.5, runtime=2.0, kafka=0.5, load=1.0, stub=7.0),
        a_window("reference", 1, reference=8.0, postgres=1.0, gateway=0.1, load=1.0),
    ]

    assert target.value(windows) == pytest.approx(expected)
    assert target.met_by(target.goal)
    assert not target.met_by(target.goal + 0.1)

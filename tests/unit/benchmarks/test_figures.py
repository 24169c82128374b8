import pytest

from benchmarks.figures import Target, Window, percentile, ratio, typical_cpu, window
from benchmarks.load.job import Side


def a_window(side: Side, number: int, *, rate: float = 1.0, scenario: str = "s", **cpu: float) -> Window:
    return Window(scenario, side, number, 100, rate, 10.0, 20.0, 30.0, None, None, cpu)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7.0], 99, 7.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([4.0, 1.0, 2.0, 3.0], 50, 2.5),
        ([float(n) for n in range(101)], 95, 95.0),
        ([0.0, 10.0], 99, 9.9),
        ([1.0, 2.0, 3.0], 100, 3.0),
    ],
)
def test_percentile_lies_between_the_nearest_ranks(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == pytest.approx(expected)


def test_a_window_counts_the_turns_that_were_done_not_those_that_were_asked_for() -> None:
    measured = window(
        "s",
        "aes",
        1,
        seconds=2.0,
        latencies=[10.0, 20.0, 30.0, 40.0],
        first_texts=[],
        cpu_seconds={"gateway": 0.004, "kafka": 0.008},
        elsewhere=0.0,
    )

    assert measured.turns == 4
    assert measured.rate == 2.0
    assert measured.p50 == 25.0
    assert measured.cpu == {"gateway": pytest.approx(1.0), "kafka": pytest.approx(2.0)}
    assert measured.first_text_p50 is None
    assert measured.creation_p50 is None


def test_a_ratio_pairs_the_windows_of_one_round_so_that_a_machine_that_slows_down_does_not_show() -> None:
    speeds = [1.0, 0.5, 0.25]
    windows = [
        each
        for number, speed in enumerate(speeds)
        for each in (
            a_window("aes", number, rate=300 * speed),
            a_window("reference", number, rate=100 * speed),
        )
    ]

    assert ratio(windows, "s", "rate") == pytest.approx(3.0)


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    rates = [(200.0, 100.0), (300.0, 100.0), (900.0, 100.0)]
    windows = []
    for number, (own, other) in enumerate(rates):
        windows += [a_window("aes", number, rate=own), a_window("reference", number, rate=other)]

    assert ratio(windows, "s", "rate") == pytest.approx(3.0)


def test_there_is_no_ratio_without_the_other_side() -> None:
    assert ratio([a_window("aes", 1)], "s", "rate") is None
    assert ratio([a_window("reference", 1)], "s", "rate") is None
    assert ratio([a_window("aes", 1), a_window("reference", 2)], "s", "rate") is None
    assert ratio([a_window("aes", 1), a_window("reference", 1, scenario="other")], "s", "rate") is None


def test_a_target_on_cpu_adds_gateway_and_runtime_and_looks_at_the_service_alone() -> None:
    target = Target("cpu", "s", "own_cpu", 4.0, at_least=False, relative=False)
    windows = [
        a_window("aes", 1, gateway=1.5, runtime=2.0, kafka=9.0),
        a_window("reference", 1, gateway=0.1, runtime=0.1, reference=9.0),
    ]

    value = target.value(windows)

    assert value == pytest.approx(3.5)
    assert target.met_by(4.0)
    assert not target.met_by(4.1)


def test_typical_cpu_covers_processes_of_every_window() -> None:
    windows = [a_window("aes", 1, gateway=1.0), a_window("aes", 2, gateway=3.0, runtime=2.0)]

    assert typical_cpu(windows) == {"gateway": 2.0, "runtime": 1.0}


def test_cpu_of_the_stack_leaves_out_what_measures_it() -> None:
    measured = a_window("aes", 1, gateway=1.0, kafka=0.5, postgres=0.25, stub=7.0, load=8.0, reference=9.0)

    assert measured.stack_cpu == pytest.approx(1.75)


def test_cpu_in_proportion_compares_the_stack_with_the_reference_alone() -> None:
    target = Target("cpu", "s", "side_cpu", 0.6, at_least=False)
    windows = [
        a_window("aes", 1, gateway=2.0, runtime=2.5, postgres=0.5, load=1.0),
        a_window("reference", 1, reference=10.0, postgres=1.0, gateway=0.1, load=1.0),
    ]

    value = target.value(windows)

    assert value == pytest.approx(0.5)
    assert target.met_by(value)

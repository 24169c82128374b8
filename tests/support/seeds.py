"""Simulations with many seeds, run in blocks: a test for each seed would cost more to collect than to run."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

BLOCK: Final = 25
_ARGUMENT: Final = "block_of_seeds"


def seeds(count: int, *, slow: int = 0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Runs the test once for each `seed` from 0 on, the `slow` ones after them in runs of slow tests; `pytest --seed N`
    runs it for one alone.

    Fixtures are made once for a block, so the test must not change what they give it.
    """

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run(**arguments: Any) -> None:
                for seed in arguments.pop(_ARGUMENT):
                    with _named(seed):
                        await test(seed=seed, **arguments)
        else:

            @functools.wraps(test)
            def run(**arguments: Any) -> None:
                for seed in arguments.pop(_ARGUMENT):
                    with _named(seed):
                        test(seed=seed, **arguments)

        signature = inspect.signature(test)
        renamed = [
            each.replace(name=_ARGUMENT) if each.name == "seed" else each for each in signature.parameters.values()
        ]
        run.__signature__ = signature.replace(parameters=renamed)  # type: ignore[attr-defined]
        return pytest.mark.seeds(count, slow)(run)

    return decorate


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("suite").addoption("--seed", type=int, metavar="N", help="run simulations with this seed alone")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "seeds(count, slow): runs with each of these seeds (use the decorator `seeds`)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if (mark := metafunc.definition.get_closest_marker("seeds")) is None:
        return
    count, slow = mark.args
    blocks = [
        range(first, min(first + BLOCK, end))
        for begin, end in ((0, count), (count, count + slow))
        for first in range(begin, end, BLOCK)
    ]
    if (seed := metafunc.config.option.seed) is not None:
        count, blocks = seed + 1, [range(seed, seed + 1)]
    covered = pytest.mark.slow(covered_by=metafunc.definition.name)
    metafunc.parametrize(
        _ARGUMENT,
        [pytest.param(each, marks=() if each.start < count else covered) for each in blocks],
        ids=[f"seeds {each.start} to {each.stop - 1}" for each in blocks],
    )


@contextmanager
def _named(seed: int) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"With seed {seed}; for this one alone: --seed {seed}")
        raise

"""Which tests run, and in how many processes: a plugin of pytest.

Without arguments that choose tests, all run but the slow ones, spread over processes. Chosen tests run one after the
other, the slow ones among them: named files, and what -k, -m, --last-failed or --stepwise select.
"""

import os
import re
from typing import Final

import pytest

from deploy.local import ports
from tests.support import run_directory
from tests.support.infrastructure import shared
from tests.support.run_directory import RunDirectory

SLOW: Final = "slow"
TOGETHER: Final = ("tests/e2e", "tests/integration/secured", "tests/integration/ingestion/engines")
"""Directories whose tests share servers of their own, so that one worker runs them all."""
# Ids and keys made while the tests are collected: other ones in each process, and in each run.
_RANDOM: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{11,12}|(?<=aes_)[\w-]{43}", re.IGNORECASE)
_SLOWEST_SHOWN: Final = 10
_MOST_WORKERS: Final = 4
# Seconds for workers to stop their servers in when a run is interrupted; xdist has 10.
_END_OF_WORKERS: Final = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suite", "the tests of this project")
    group.addoption("--all", action="store_true", dest="all_tests", help="run the slow tests, too")
    group.addoption("--slow-only", action="store_true", help="run only the slow tests")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    option = config.option
    if _is_worker(config) or _chooses_tests(config) or option.collectonly:
        return
    if option.numprocesses is None and not option.usepdb:
        # One more than cores: end-to-end tests wait most of the time.
        option.numprocesses = min((os.cpu_count() or 1) + 1, _MOST_WORKERS)
    if option.durations is None:
        option.durations = _SLOWEST_SHOWN


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{SLOW}: runs only with --all or when named, because it takes long")
    if _is_worker(config):
        # A port that one worker has chosen and does not listen on yet is free for the others.
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        ports._CANDIDATES = ports._CANDIDATES[number % _MOST_WORKERS :: _MOST_WORKERS]
    if config.option.numprocesses:
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = _END_OF_WORKERS
        # The workers inherit where it is.
        RunDirectory.current()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker(config) and run_directory.DIRECTORY in os.environ:
        shared.end()


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Names tests without what is random, so that workers agree on their names and --last-failed finds them."""
    if isinstance(val, str) and _RANDOM.search(val):
        return ascii(_RANDOM.sub("ID", val))[1:-1]
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for directory in TOGETHER:
            if item.path.is_relative_to(config.rootpath / directory):
                item.add_marker(pytest.mark.xdist_group(directory))
    if config.option.slow_only:
        _keep(config, items, slow=True)
    elif not config.option.all_tests and not _chooses_tests(config):
        _keep(config, items, slow=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Removes the group that xdist appends to a name, by which --last-failed would not find the test again."""
    name, mark, group = report.nodeid.rpartition("@")
    if mark and "]" not in group:
        report.nodeid = name


def _keep(config: pytest.Config, items: list[pytest.Item], *, slow: bool) -> None:
    others = [item for item in items if (item.get_closest_marker(SLOW) is not None) != slow]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if (item.get_closest_marker(SLOW) is not None) == slow]


def _chooses_tests(config: pytest.Config) -> bool:
    option = config.option
    return config.args_source is pytest.Config.ArgsSource.ARGS or any(
        (option.keyword, option.markexpr, option.lf, option.stepwise)
    )


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is one of xdist's processes."""
    return hasattr(config, "workerinput")

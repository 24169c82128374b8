"""Plugin of pytest that spreads a run of the whole suite over processes, and ends them in order."""

import importlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from deploy.local import ports
from tests.support import run_directory
from tests.support.infrastructure import shared
from tests.support.run_directory import RunDirectory
from tests.support.suite import is_left_out, is_slow, names_tests

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

TOGETHER: Final = {
    "tests/contract/": "what is read once",
    # Has a stack of its own.
    "tests/e2e/test_rolling_restart.py": "replicas",
    # Takes as long as all others of a stack, and is slow.
    "tests/e2e/test_schemathesis.py": "third stack",
    # The studio's pages take longer than all other tests of a stack.
    "tests/e2e/studio/": "second stack",
    "tests/e2e/": "first stack",
    "tests/integration/ingestion/engines/": "engines",
    "tests/integration/secured/": "secured",
    "tests/unit/web/": "browser",
}
"""Tests below these places share servers, a browser, or what is read once: one worker runs all of each group.

Of two places that fit, the first one counts."""
_ORDER: Final = (
    *("tests/e2e/studio/", "tests/e2e/", "tests/unit/web/", "tests/integration/", "tests/contract/"),
    *("tests/unit/suite/", ""),
)
"""The order of groups: those that keep one worker busy longest begin, and files of quick tests fill the gaps."""
_SLOWEST_SHOWN: Final = 10
_MOST_WORKERS: Final = 4
# Seconds for workers to stop their servers in when a run is interrupted; xdist has 10.
_END_OF_WORKERS: Final = 120
_nodes: "list[WorkerController]" = []


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    option = config.option
    if not config.pluginmanager.hasplugin("xdist"):
        # `-p no:xdist`: everything in this process.
        option.numprocesses = 0
    if _is_worker(config) or _chooses_tests(config) or option.collectonly or option.rule is not None:
        return
    if option.numprocesses is None and not option.usepdb:
        # Two more than cores: end-to-end tests wait most of the time.
        option.numprocesses = min((os.cpu_count() or 1) + 2, _MOST_WORKERS)
    if option.durations is None:
        option.durations = _SLOWEST_SHOWN


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if _is_worker(config):
        RunDirectory.current().join_as_worker()
        # A port that one worker has chosen and does not listen on yet is free for the others.
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        ports.CANDIDATES = ports.CANDIDATES[number % _MOST_WORKERS :: _MOST_WORKERS]
    if config.option.numprocesses:
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = _END_OF_WORKERS
        # The workers inherit where it is.
        RunDirectory.current()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Imports a part of the tests first, another one in each worker of a run of everything.

    In the order in which tests are collected all workers would compile the same file at the same time, where no
    compiled ones are kept from a run before: a minute of two cores.
    """
    config = session.config
    if not _is_worker(config) or _chooses_tests(config):
        return
    files = sorted((config.rootpath / "tests").rglob("test_*.py"))
    files = [file for file in files if not is_left_out(file, config)]
    number, workers = os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"), os.environ["PYTEST_XDIST_WORKER_COUNT"]
    for file in files[int(number) :: int(workers)]:
        # Collecting it says what is wrong with it.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: "WorkerController") -> None:
    _nodes.append(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: "WorkerController") -> None:
    """Leaves out workers that have ended by themselves: they have stopped their servers."""
    if node in _nodes:
        _nodes.remove(node)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Has the workers of an interrupted run end in order: they stop the servers that their tests have started."""
    if not _nodes:
        return
    for worker in RunDirectory.current().workers():
        with suppress(psutil.NoSuchProcess):
            worker.terminate()
    for node in _nodes:
        # Either has ended, or what ends all workers comes next.
        with suppress(Exception):
            node.channel.waitclose(_END_OF_WORKERS)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker(config) and run_directory.DIRECTORY in os.environ:
        shared.end()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling | None":
    """Distributes groups. xdist's own work for each of them grows with their number: single tests would be too many."""
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    # The largest number of tests is not what takes longest.
    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.numprocesses or _is_worker(config):
        items.sort(key=lambda item: (_rank(item.nodeid), not is_slow(item) or _together(item.nodeid) is not None))


def _rank(nodeid: str) -> int:
    return next(rank for rank, place in enumerate(_ORDER) if nodeid.startswith(place))


def _group(nodeid: str) -> str:
    """The unit that one worker runs: a group of TOGETHER, or a file."""
    return _together(nodeid) or nodeid.partition("::")[0]


def _together(nodeid: str) -> str | None:
    return next((group for place, group in TOGETHER.items() if nodeid.startswith(place)), None)


def _chooses_tests(config: pytest.Config) -> bool:
    # Those of the cache's plugin are there only with it.
    choices = [getattr(config.option, name, None) for name in ("keyword", "markexpr", "lf", "stepwise")]
    return names_tests(config) or any(choices)


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is one of xdist's processes."""
    return hasattr(config, "workerinput")

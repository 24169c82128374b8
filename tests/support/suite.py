"""Plugin of pytest that selects the tests of a run and its number of processes.

Without arguments that choose tests, all run but the slow ones, spread over processes. Chosen tests run one after the
other, the slow ones among them: named files, and what -k, -m, --last-failed or --stepwise select.
"""

import gc
import importlib
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from deploy.local import ports
from tests.support import run_directory
from tests.support.infrastructure import shared
from tests.support.run_directory import RunDirectory

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

SLOW: Final = "slow"
TOGETHER: Final = {
    "tests/contract/": "what is read once",
    # Has a stack of its own.
    "tests/e2e/test_rolling_restart.py": "replicas",
    # Takes as long as all others of a stack, and is slow.
    "tests/e2e/test_schemathesis.py": "third stack",
    # Two stacks are ready sooner than one; each has about half of the work.
    "tests/e2e/studio/": "second stack",
    "tests/e2e/test_openai_chat.py": "second stack",
    "tests/e2e/test_openai_responses.py": "second stack",
    "tests/e2e/test_timeline.py": "second stack",
    "tests/e2e/test_toolset_calls.py": "second stack",
    "tests/e2e/test_turn_streams.py": "second stack",
    "tests/e2e/test_turns.py": "second stack",
    "tests/e2e/test_waits.py": "second stack",
    "tests/e2e/": "first stack",
    "tests/integration/benchmarks/test_reference_app.py": "reference app",
    "tests/integration/deploy_local/test_lifecycle.py": "lifecycle",
    "tests/integration/eventing/test_outage.py": "outage",
    "tests/integration/ingestion/engines/": "engines",
    "tests/integration/secured/": "secured",
    "tests/unit/gateway/studio/": "browser",
    "tests/unit/suite/test_kept_browser.py": "browser",
}
"""Tests below these places share servers, a browser, or what is read once: one worker runs all of each group.

Of two places that fit, the first one counts."""
# Ids and keys made while the tests are collected: other ones in each process, and in each run.
_RANDOM: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{11,12}|(?<=aes_)[\w-]{43}", re.IGNORECASE)
_SLOW_FILE: Final = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)
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
        # Two more than cores: end-to-end tests wait most of the time.
        option.numprocesses = min((os.cpu_count() or 1) + 2, _MOST_WORKERS)
    if option.durations is None:
        option.durations = _SLOWEST_SHOWN


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{SLOW}: runs only with --all or when named, because it takes long")
    for kind in ("rule(*numbers)", "crash(*processes)", "outage(*parts)", "takeover(*things)"):
        config.addinivalue_line("markers", f"{kind}: what the test proves")
    if _is_worker(config):
        RunDirectory.current().join_as_worker()
        # A port that one worker has chosen and does not listen on yet is free for the others.
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        ports._CANDIDATES = ports._CANDIDATES[number % _MOST_WORKERS :: _MOST_WORKERS]
        ports._untried.clear()
    if config.option.numprocesses:
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = _END_OF_WORKERS
        # The workers inherit where it is.
        RunDirectory.current()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collects without collections of garbage, and leaves what was imported out of all later ones: it stays anyway."""
    gc.disable()
    try:
        if _is_worker(session.config) and not _chooses_tests(session.config):
            _import_own_share(session.config)
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of slow tests alone, and with them what only they import."""
    if _runs_slow_tests(config) or not collection_path.match("test_*.py"):
        return None
    return _SLOW_FILE.search(collection_path.read_text()) is not None or None


def _import_own_share(config: pytest.Config) -> None:
    """Imports a part of the tests first, another one in each worker.

    In the order in which tests are collected all workers would compile the same file at the same time, where no
    compiled ones are kept from a run before.
    """
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    files = sorted((config.rootpath / "tests").rglob("test_*.py"))
    files = [file for file in files if not pytest_ignore_collect(file, config)]
    for file in files[number :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
        # Collecting it says what is wrong with it.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Has the workers of an interrupted run end in order: they stop the servers that their tests have started."""
    controller = session.config.pluginmanager.get_plugin("dsession")
    workers = list(controller._active_nodes) if controller is not None else []
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker.gateway._rinfo().pid, signal.SIGTERM)
    for worker in workers:
        # Either has ended, or what ends all workers comes next.
        with suppress(Exception):
            worker.channel.waitclose(_END_OF_WORKERS)


def pytest_unconfigure(config: pytest.Config) -> None:
    # Libraries that count their objects would take those left out for leaks.
    gc.unfreeze()
    if not _is_worker(config) and run_directory.DIRECTORY in os.environ:
        shared.end()


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Names tests without what is random, so that workers agree on their names and --last-failed finds them."""
    if isinstance(val, str) and _RANDOM.search(val):
        return ascii(_RANDOM.sub("ID", val))[1:-1]
    return None


def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling | None":
    """Distributes single tests, but for those in TOGETHER. The largest group begins: the end-to-end tests."""
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid) or nodeid

    return Scheduling(config, log)


def _group(nodeid: str) -> str | None:
    return next((group for place, group in TOGETHER.items() if nodeid.startswith(place)), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Where tests are spread, one that takes minutes must not be the last.
    if config.option.numprocesses or _is_worker(config):
        items.sort(key=lambda item: item.get_closest_marker(SLOW) is None or _group(item.nodeid) is not None)
    if config.option.slow_only:
        _keep(config, items, slow=True)
    elif not _runs_slow_tests(config):
        _keep(config, items, slow=False)


def _keep(config: pytest.Config, items: list[pytest.Item], *, slow: bool) -> None:
    others = [item for item in items if (item.get_closest_marker(SLOW) is not None) != slow]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if (item.get_closest_marker(SLOW) is not None) == slow]


def _runs_slow_tests(config: pytest.Config) -> bool:
    return config.option.all_tests or config.option.slow_only or _chooses_tests(config)


def _chooses_tests(config: pytest.Config) -> bool:
    option = config.option
    return config.args_source is pytest.Config.ArgsSource.ARGS or any(
        (option.keyword, option.markexpr, option.lf, option.stepwise)
    )


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is one of xdist's processes."""
    return hasattr(config, "workerinput")

"""Plugin of pytest that selects the tests of a run and knows what they stand for, by their marks.

`rule`, `crash`, `outage` and `failover` name what a test proves. Whatever any test proves, the short run proves: a test
marked `slow` shares such a mark with a quick test, or names the quick tests of the same, or says why there are none.
"""

import gc
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

SLOW: Final = "slow"
RULE: Final = "rule"
MARKS: Final = {
    f"{SLOW}(*, covered_by=(), reason='')": "left out unless --all or --slow-only is given or the test is named; "
    "covered_by are quick tests of the same, `path/test_x.py::test_y` below tests or `test_y` of the same file",
    f"{RULE}(*numbers)": "proves reliability rules of docs/concepts/rules-of-flow.md",
    "crash(*processes)": "a process is killed in the middle of its work",
    "outage(*parts)": "a part is away or frozen and comes back",
    "failover(*things)": "another process goes on with the work",
}
_KINDS: Final = (RULE, "crash", "outage", "failover")
_RULES_OF_FLOW: Final = Path("docs/concepts/rules-of-flow.md")
# Ids and keys made while the tests are collected: other ones in each process, and in each run.
_RANDOM: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{11,12}|(?<=aes_)[\w-]{43}", re.IGNORECASE)
_SLOW_FILE: Final = re.compile(r"^pytestmark = (\[\s*)?([\w.]+\(.*\),\s*)?pytest\.mark\.slow\b", re.MULTILINE)
_rules = pytest.StashKey[dict[int, list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suite", "the tests of this project")
    group.addoption("--all", action="store_true", dest="all_tests", help="run the slow tests, too")
    group.addoption("--slow-only", action="store_true", help="run only the slow tests")
    group.addoption(
        "--rule",
        nargs="?",
        type=int,
        const=0,
        metavar="N",
        help="run nothing; list the tests of each rule of flow, or of N",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for mark, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}")
    if config.option.rule is not None:
        config.option.collectonly = config.option.all_tests = True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without collections of garbage, and leaves what was imported out of all later ones: it stays anyway."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    # Libraries that count their objects would take those left out for leaks.
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of slow tests alone, and with them what only they import. Named ones are never asked about."""
    return (collection_path.match("test_*.py") and is_left_out(collection_path, config)) or None


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Names tests without what is random, so that workers agree on their names and --last-failed finds them."""
    if isinstance(val, str) and _RANDOM.search(val):
        return ascii(_RANDOM.sub("ID", val))[1:-1]
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if not session.testsfailed and _collects_everything(config) and (wrong := faults(items, _rules_of_flow(config))):
        # Workers of xdist tell of errors in the collection by reports alone.
        report = pytest.CollectReport("marks of tests", "failed", "\n".join(wrong), result=[])
        config.hook.pytest_collectreport(report=report)
    if config.option.rule is not None:
        config.stash[_rules] = _tests_by_rule(items)
        items.clear()
        return
    named = [] if config.option.slow_only else _named(config)
    if not config.option.all_tests:
        _keep(
            config, items, [each for each in items if is_slow(each) is config.option.slow_only or _is_of(each, named)]
        )


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    rules = config.stash.get(_rules, {})
    wanted = config.option.rule
    return [f"{rule:2}  {test}" for rule in sorted(rules) if wanted in (0, rule) for test in rules[rule]]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _rules in session.config.stash and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker(SLOW) is not None


def is_left_out(file: Path, config: pytest.Config) -> bool:
    """Whether the run is without slow tests and the file has no others."""
    return not _runs_slow_tests(config) and _SLOW_FILE.search(file.read_text()) is not None


def names_tests(config: pytest.Config) -> bool:
    """Whether the command line says which files or folders to run."""
    return config.args_source is pytest.Config.ArgsSource.ARGS


def faults(items: Iterable[pytest.Item], rules_of_flow: Iterable[int]) -> list[str]:
    """The faults of the marks of these tests, which are all that there are."""
    items = list(items)
    quick = {name for item in items if not is_slow(item) for name in (item.nodeid, _function(item))}
    covered = {kind for item in items if not is_slow(item) for kind in _kinds(item)}
    found: dict[str, None] = {}
    for item in items:
        missing = [kind for kind in _kinds(item) if kind not in covered]
        found |= {f"{_function(item)}: no quick test has the mark {name}({of!r})": None for name, of in missing}
        if (mark := item.get_closest_marker(SLOW)) is None:
            continue
        names = mark.kwargs.get("covered_by", ())
        for name in (names,) if isinstance(names, str) else names:
            place = f"tests/{name}" if "::" in name else f"{item.nodeid.partition('::')[0]}::{name}"
            if place not in quick:
                found[f"{_function(item)}: no quick test has the name {place}"] = None
        if not (names or mark.kwargs.get("reason") or _kinds(item)):
            found[f"{_function(item)}: slow, and neither covered_by nor a reason is given"] = None
    rules = set(rules_of_flow)
    proved = {int(of) for name, of in covered if name == RULE}
    found |= {f"rule {rule} of {_RULES_OF_FLOW.name}: no quick test proves it": None for rule in sorted(rules - proved)}
    found |= {f"rule {rule}: not in {_RULES_OF_FLOW.name}": None for rule in sorted(proved - rules)}
    return list(found)


def _kinds(item: pytest.Item) -> set[tuple[str, str | int]]:
    return {(name, of) for name in _KINDS for mark in item.iter_markers(name) for of in mark.args}


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _tests_by_rule(items: Iterable[pytest.Item]) -> dict[int, list[str]]:
    tests: dict[int, dict[str, None]] = {}
    for item in items:
        for name, rule in _kinds(item):
            if name == RULE:
                tests.setdefault(int(rule), {})[_function(item)] = None
    return {rule: list(names) for rule, names in tests.items()}


def _rules_of_flow(config: pytest.Config) -> list[int]:
    page = (config.rootpath / _RULES_OF_FLOW).read_text()
    return [int(number) for number in re.findall(r"^(\d+)\. \*", page, re.MULTILINE)]


def _keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    if len(kept) < len(items):
        of_kept = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in of_kept])
        items[:] = kept


def _runs_slow_tests(config: pytest.Config) -> bool:
    return config.option.all_tests or config.option.slow_only


def _named(config: pytest.Config) -> list[str]:
    """Ids of the files and tests that the command line names, not those of folders."""
    if not names_tests(config):
        return []
    found = []
    for argument in config.args:
        file, separator, test = argument.partition("::")
        path = config.invocation_params.dir / file
        if path.is_file():
            found.append(f"{path.resolve().relative_to(config.rootpath.resolve()).as_posix()}{separator}{test}")
    return found


def _is_of(item: pytest.Item, named: Iterable[str]) -> bool:
    return any(item.nodeid == name or item.nodeid.startswith((f"{name}::", f"{name}[")) for name in named)


def _collects_everything(config: pytest.Config) -> bool:
    option = config.option
    # Those of the cache's plugin are there only with it.
    leaves_out = [getattr(option, name, None) for name in ("ignore", "ignore_glob", "lf")]
    return not names_tests(config) and not any(leaves_out)

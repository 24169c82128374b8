"""The tables of tests/README.md: the short run contains what covers a kind, and every slow test has its row."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "README.md").read_text()
RULES = (TESTS.parent / "docs" / "architecture.md").read_text().split("## The rules of flow")[1].split("\n## ")[0]
LINES = [line for line in PAGE.splitlines() if line.startswith("|") and "::" in line]
ROW = re.compile(r"\| (?P<subject>[^|]+) \| (?P<quick>[^|]*::[^|]+) \|(?: (?P<slow>[^|]*)\|)?")
ROWS = [row.groups("") for row in map(ROW.fullmatch, LINES) if row]
SLOW = "pytest.mark.slow"


def named(column: int) -> list[str]:
    return [name for row in ROWS for name in re.findall(r"`([\w/]+\.py[^`]*)`", row[column])]


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse((TESTS / path).read_text())


@cache
def decorators_in(path: str) -> dict[str, list[ast.expr]]:
    """Decorators and marks of each function of the file; those of its class and of the whole file are among them."""
    return dict(_decorated(parsed(path).body, "", []))


def _decorated(body: list[ast.stmt], prefix: str, outer: list[ast.expr]) -> Iterator[tuple[str, list[ast.expr]]]:
    marks = [
        *outer,
        *(node.value for node in body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)),
    ]
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _decorated(node.body, f"{prefix}{node.name}::", [*marks, *node.decorator_list])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, [*marks, *node.decorator_list]


def is_slow(test: str) -> bool:
    """Raises KeyError when there is no such test, or not with such a parameter."""
    path, name, parameter = re.fullmatch(r"(\S+?\.py)::([\w:]+)(?:\[(.+)])?", test).groups()
    decorators = decorators_in(path)[name]
    if parameter and not any(parameter in ast.unparse(each) for each in decorators):
        raise KeyError(test)
    return any(is_slow_mark(each) or parameter in slow_parameters(each) for each in decorators)


def is_slow_mark(decorator: ast.expr) -> bool:
    marks = decorator.elts if isinstance(decorator, ast.List) else [decorator]
    return any(ast.unparse(mark) == SLOW for mark in marks)


def slow_parameters(decorator: ast.expr) -> set[str]:
    parameters = [node for node in ast.walk(decorator) if isinstance(node, ast.Call) and node.keywords]
    return {
        ast.unparse(each.args[0]).strip("'").rpartition(".")[2]
        for each in parameters
        if any(keyword.arg == "marks" and is_slow_mark(keyword.value) for keyword in each.keywords)
    }


def is_slow_file(path: str) -> bool:
    tests = [f"{path}::{name}" for name in decorators_in(path) if name.rpartition("::")[2].startswith("test")]
    return bool(tests) and all(map(is_slow, tests))


def slow_in(path: str) -> Iterator[str]:
    """Slow tests of the file, and slow parameters of its tests and fixtures."""
    for name, decorators in decorators_in(path).items():
        if any(map(is_slow_mark, decorators)):
            if name.rpartition("::")[2].startswith("test"):
                yield f"{path}::{name}"
        else:
            for parameter in sorted(set().union(*map(slow_parameters, decorators))):
                yield f"{path}::{name}[{parameter}]"


def files() -> Iterator[str]:
    for file in sorted(TESTS.rglob("*.py")):
        if SLOW in file.read_text():
            yield str(file.relative_to(TESTS))


def test_every_line_of_a_table_is_read() -> None:
    assert [line for line in LINES if not ROW.fullmatch(line)] == []


def test_what_covers_a_kind_is_in_the_short_run() -> None:
    assert [test for test in named(1) if is_slow(test)] == []


def test_what_runs_with_all_alone_is_slow() -> None:
    assert [
        test for test in (*named(0), *named(2)) if not (is_slow(test) if "::" in test else is_slow_file(test))
    ] == []


def test_every_slow_test_has_its_row() -> None:
    listed = {*named(0), *named(2)}
    assert [test for path in files() for test in slow_in(path) if not {test, path} & listed] == []


def test_slow_is_marked_where_it_is_seen() -> None:
    """Not in a list of parameters with a name of its own, for example."""
    for path in files():
        seen = {id(node) for marks in decorators_in(path).values() for each in marks for node in ast.walk(each)}
        marks = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)]
        assert [node.lineno for node in marks if ast.unparse(node) == SLOW and id(node) not in seen] == [], path


def test_every_rule_of_flow_is_covered() -> None:
    rules = re.findall(r"^(\d+)\. ", RULES, re.MULTILINE)
    assert [subject for subject, *_ in ROWS if subject.isdecimal()] == rules

"""The tables of tests/README.md: what the short run covers is there and not marked slow, and the rest is."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "README.md").read_text()
RULES = (TESTS.parent / "docs" / "architecture.md").read_text().split("## The rules of flow")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| (?P<subject>[^|]+) \| (?P<quick>`[^|]+::[^|]+) \|(?: (?P<slow>[^|]*)\|)?$", PAGE, re.MULTILINE)


def named(column: int) -> list[str]:
    return [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[column])]


@cache
def decorators_in(path: str) -> dict[str, list[ast.expr]]:
    """Decorators and marks of each test of the file; marks of the whole file are among them."""
    tree = ast.parse((TESTS / path).read_text())
    marks = [node.value for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {test.name: [*marks, *test.decorator_list] for test in tests}


def is_slow(test: str) -> bool:
    """Raises KeyError when there is no such test, or not with such a parameter."""
    path, name, parameter = re.fullmatch(r"(\S+)::(\w+)(?:\[(.+)])?", test).groups()
    decorators = decorators_in(path)[name]
    if parameter and not any(parameter in ast.unparse(each) for each in decorators):
        raise KeyError(test)
    return any(is_slow_mark(each) or parameter in slow_parameters(each) for each in decorators)


def is_slow_mark(decorator: ast.expr) -> bool:
    marks = decorator.elts if isinstance(decorator, ast.List) else [decorator]
    return any(ast.unparse(mark) == "pytest.mark.slow" for mark in marks)


def slow_parameters(decorator: ast.expr) -> set[str]:
    parameters = [node for node in ast.walk(decorator) if isinstance(node, ast.Call) and node.keywords]
    return {
        ast.unparse(each.args[0]).strip("'").rpartition(".")[2]
        for each in parameters
        if any(keyword.arg == "marks" and is_slow_mark(keyword.value) for keyword in each.keywords)
    }


def test_what_covers_a_kind_is_in_the_short_run() -> None:
    assert [test for test in named(1) if is_slow(test)] == []


def test_what_runs_with_all_alone_is_slow() -> None:
    assert [test for test in named(2) if not is_slow(test)] == []


def test_every_rule_of_flow_is_covered() -> None:
    rules = re.findall(r"^(\d+)\. ", RULES, re.MULTILINE)
    assert [subject for subject, *_ in ROWS if subject.isdecimal()] == rules

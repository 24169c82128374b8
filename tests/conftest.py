"""Plugins of every test."""

pytest_plugins = [
    "tests.support.hang_limits",
    "tests.support.plain_logs",
    "tests.support.seeds",
    "tests.support.suite",
    "tests.support.waiting",
    "tests.support.workers",
]

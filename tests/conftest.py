"""Plugins of every test."""

pytest_plugins = [
    # First: pytest rewrites the assertions of a plugin only when nothing has imported it before.
    "tests.support.waiting",
    "tests.support.hang_limits",
    "tests.support.plain_logs",
    "tests.support.suite",
]

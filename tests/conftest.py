"""Plugins of every test."""

pytest_plugins = [
    # First: pytest rewrites the assertions of a plugin only when nothing has imported it before.
    "tests.support.virtual_time",
    "tests.servers.plugin",
    "tests.support.hang_limits",
    "tests.support.plain_logs",
    "tests.support.seeds",
    "tests.support.suite",
    "tests.support.workers",
]

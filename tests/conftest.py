"""Plugins of every test."""

pytest_plugins = [
    "tests.servers.plugin",
    "tests.support.hang_limits",
    "tests.support.plain_logs",
    "tests.support.recorded_bodies",
    "tests.support.suite",
    "tests.support.waiting",
]

"""Plugin of pytest that runs tests marked `virtual_time`, and their fixtures, on a clock that waits for no machine."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

# Before its import: its assertions are to say what they compared.
pytest.register_assert_rewrite("tests.support.waiting")

from tests.support.waiting import VirtualTimeLoop  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_time: time passes only when no task of the test can run")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}

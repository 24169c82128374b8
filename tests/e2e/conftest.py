"""The whole stack, started once for all end-to-end tests, and callers of different rights."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import httpx
import pytest

from services.gateway.administration import Administration
from services.gateway.domain.accounts import ALL_SCOPES
from tests.e2e.api import Api, new_client, unique
from tests.e2e.event_log import EventLog
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack, environment_of, remembered_port, temporary_home
from tests.support.otlp_receiver import OtlpReceiver


@dataclass(frozen=True)
class Caller:
    """A key and whose it is."""

    company: str
    company_id: str
    user: str
    user_id: str
    key_id: str
    secret: str


@pytest.fixture(scope="session")
def home() -> Iterator[object]:
    with temporary_home() as directory:
        yield directory


@pytest.fixture(scope="session")
def model(home) -> Iterator[HeldModel]:
    held = HeldModel()
    held.serve(remembered_port(home))
    yield held
    held.close()


@pytest.fixture(scope="session")
def spans(home) -> Iterator[OtlpReceiver]:
    with OtlpReceiver(remembered_port(home, "otlp-port")).serving() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def stack(home, model: HeldModel, spans: OtlpReceiver, request: pytest.FixtureRequest) -> Iterator[RunningStack]:
    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": spans.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    running = RunningStack(home, {**environment_of(home, model.base_url), **traced})
    running.up()
    running.wait_ready()
    yield running
    if (home / "owner.json").exists():
        running.down()


@pytest.fixture
def breakable(stack: RunningStack) -> Iterator[RunningStack]:
    """The stack, for tests that break it: the next test starts when it works again."""
    yield stack
    stack.wait_ready()


@pytest.fixture
async def api(stack: RunningStack) -> AsyncIterator[Api]:
    """The development company's key: every scope, no rate limit."""
    async with new_client(stack.base_url, stack.api_key) as client:
        yield Api(client)


@pytest.fixture
async def anonymous(stack: RunningStack) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key."""
    async with new_client(stack.base_url, None) as client:
        yield client


@pytest.fixture(scope="session")
def event_log(stack: RunningStack) -> EventLog:
    return EventLog(stack.kafka)


@pytest.fixture(scope="session")
def own_company(stack: RunningStack) -> str:
    """A company of this test run."""
    return make_company(stack)


@pytest.fixture(scope="session")
def alice(stack: RunningStack, own_company: str) -> Caller:
    """May do everything but see what is private to her colleagues."""
    return make_caller(stack, own_company, "alice", PERSONAL)


@pytest.fixture(scope="session")
def bob(stack: RunningStack, own_company: str) -> Caller:
    """Alice's colleague, with the same rights."""
    return make_caller(stack, own_company, "bob", PERSONAL)


@pytest.fixture(scope="session")
def mallory(stack: RunningStack) -> Caller:
    """May do everything, in another company."""
    return make_caller(stack, make_company(stack), "mallory", ALL_SCOPES)


@pytest.fixture
async def as_alice(stack: RunningStack, alice: Caller) -> AsyncIterator[Api]:
    async with new_client(stack.base_url, alice.secret) as client:
        yield Api(client)


@pytest.fixture
async def as_mallory(stack: RunningStack, mallory: Caller) -> AsyncIterator[Api]:
    async with new_client(stack.base_url, mallory.secret) as client:
        yield Api(client)


PERSONAL = frozenset(
    {
        "agents:read", "agents:write", "sessions:read", "sessions:write", "artifacts:read", "artifacts:write",
        "files:write", "runtime:execute", "keys:read", "keys:write", "events:read",
    }
)  # fmt: skip


def make_company(stack: RunningStack) -> str:
    """The name of a new company without a rate limit."""
    return stack.administer(lambda gateway: gateway.create_company(unique("company"), rate_limit=None)).name


def make_caller(stack: RunningStack, company: str, name: str, scopes: frozenset[str]) -> Caller:
    async def make(gateway: Administration) -> Caller:
        user = await gateway.create_user(company, name)
        issued = await gateway.create_key(company, name, scopes=scopes)
        return Caller(company, user.company_id, name, user.id, issued.key.id, issued.secret)

    return stack.administer(make)

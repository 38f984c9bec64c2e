"""Fixtures for all tests: two merchants, their API clients, the service, receivers and engines.

They also clear what earlier tests left outside of the database.
"""

import gc
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django_ratelimit.core
import hypothesis
import pytest
import redis
from django.conf import settings
from django.db import connection, connections
from django.test import Client
from django.urls import get_resolver
from django.utils import translation

from codservice import health, ratelimit
from codservice.accounts import authentication
from codservice.accounts.models import Account, ApiKey
from codservice.data_folder import Layout
from tests import factories
from tests.harness.background import PATIENCE
from tests.harness.client import ApiClient, browser_of, new_key
from tests.harness.deliveries import write_delivery
from tests.harness.onebox import OneBox
from tests.harness.processes import descendants, is_alive
from tests.harness.receivers import Receiver
from tests.harness.service import Service, running_service
from webhooks import receivers, registry, secrets, wakeup
from webhooks.engine import Engine
from webhooks.models import Delivery, Webhook
from webhooks.roster import Roster

# Load the URLs, as the web does before its first request: some test files look up what there is when they are imported.
assert get_resolver().url_patterns
# Nobody runs collectstatic before the tests.
settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
# Look static files up on request: otherwise every test client would read them all again.
settings.WHITENOISE_AUTOREFRESH = True
# Passwords need not be slow to guess.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
settings.MIDDLEWARE[:0] = ["tests.harness.emptying.UnderWay", "tests.harness.drift.Recorder"]
# On a busy machine Redis may take longer than a request waits for it, which would let everybody pass and wake nobody
# for two seconds. Tests of these timeouts use `limits_by` or processes of their own.
PATIENTLY = settings.REDIS_CLIENT | dict.fromkeys(("socket_timeout", "socket_connect_timeout"), PATIENCE)
settings.CACHES["default"]["OPTIONS"] |= PATIENTLY
ratelimit.counter = ratelimit.Counter(settings.REDIS_URL, PATIENTLY)
health._broker = redis.Redis.from_url(settings.REDIS_URL, **PATIENTLY)
wakeup._redis = redis.Redis.from_url(settings.REDIS_URL, **PATIENTLY)
wakeup._ring = wakeup._redis.register_script(wakeup._ring.script)
memory = redis.Redis.from_url(settings.REDIS_URL)
# The clock of the cache of API keys stands still: a request costs the same however long the one before it took.
authentication.time = SimpleNamespace(monotonic=lambda: 0.0)
# So does the clock of the limits of addresses and logins, so that no window ends during a test.
django_ratelimit.core.time = SimpleNamespace(time=lambda: 1_800_000_000.0)
# Hypothesis has no patience with a busy machine.
hypothesis.settings.register_profile(
    "unhurried", hypothesis.settings(), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")
# Processes that a shell starts in the background ignore Ctrl-C, and so would the ones that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, bool, bool]:
    """Keep the garbage collector away from the collected tests, which stay to the end, and run it less often.

    A single request makes thousands of objects, few of them in cycles. Collecting garbage took a tenth of the tests'
    processor time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


@pytest.fixture(autouse=True)
def _no_memory() -> None:
    """Forget the cached API keys, the counted requests, Redis' silences and the active language of the test before."""
    translation.deactivate()
    authentication._trusted.clear()
    wakeup._paused_until = 0.0
    memory.flushdb()


@pytest.fixture
def alice(db: None) -> Account:
    """A merchant."""
    return factories.AccountFactory(name="Alice's shop")


@pytest.fixture
def charlie(db: None) -> Account:
    """Another merchant, who must see nothing of Alice's."""
    return factories.AccountFactory(name="Charlie's shop")


@pytest.fixture
def api_for() -> Callable[..., ApiClient]:
    """Make a client with a new key of an account: `api_for(alice, scopes=["orders:read"])`."""

    def make(account: Account, **kwargs: Any) -> ApiClient:
        return ApiClient(new_key(account, **kwargs))

    return make


@pytest.fixture
def api(alice: Account, api_for: Callable[..., ApiClient]) -> ApiClient:
    return api_for(alice)


@pytest.fixture
def browser(alice: Account) -> Client:
    """A test client signed in as the holder of Alice's shop. Tests of agents override it."""
    return browser_of(alice.holder)


@pytest.fixture
def charlies_api(charlie: Account, api_for: Callable[..., ApiClient]) -> ApiClient:
    return api_for(charlie)


@pytest.fixture
def twin(alice: Account) -> Account:
    """The twin of Alice's account, for test mode."""
    return ApiKey.issue(alice, name="First", is_test=True)[0].account


@pytest.fixture
def twins_api(alice: Account) -> ApiClient:
    """Alice's client with a test key."""
    return ApiClient(new_key(alice, is_test=True))


@pytest.fixture
def stranger() -> ApiClient:
    """Somebody without a key."""
    return ApiClient()


@pytest.fixture
def limits_by(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Callable[[str], None]:
    """Have the limits of keys, people and addresses use the Redis at a URL, with the timeouts of production."""

    def use(url: str) -> None:
        monkeypatch.setattr(ratelimit, "counter", ratelimit.Counter(url, settings.REDIS_CLIENT))
        cache = settings.CACHES["default"]
        options = cache["OPTIONS"] | settings.REDIS_CLIENT
        settings.CACHES = {"default": {**cache, "LOCATION": url, "OPTIONS": options}}

    return use


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """The test database, as pytest-django makes it. What workers leave in /tmp about it goes with it."""
    yield
    shutil.rmtree(Roster.of(connection.settings_dict).folder, ignore_errors=True)


# --- The service in processes of its own ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _service(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("service") / "log") as service:
        yield service


@pytest.fixture
def service(transactional_db: None, _service: Service) -> Service:
    """The running service, for requests that must go over a socket or through several processes."""
    return _service


@pytest.fixture
def key(transactional_db: None) -> str:
    """A key with a limit that no test reaches, for the running service."""
    return new_key(factories.AccountFactory(rate_limit=1_000_000))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., OneBox]]:
    """Start services. Those that still run at the end of the test are killed."""
    started: list[OneBox] = []

    def start(
        data: Path | None = None,
        *,
        module: str = "tests.run.stub",
        prefix: Sequence[str] = (),
        python: str = sys.executable,
        **environment: str,
    ) -> OneBox:
        output = tmp_path / f"output-{len(started)}"
        started.append(OneBox(data or tmp_path / "data", output, module, list(prefix), python, **environment))
        return started[-1]

    yield start
    for service in started:
        below = descendants(service.popen.pid)
        service.popen.kill()
        service.popen.wait()
        for pid in below:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(Layout(service.data).runtime, ignore_errors=True)


# --- Webhooks, their receivers and engines -------------------------------------------------------------------------


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def webhook_to(alice: Account) -> Callable[..., Webhook]:
    """Make a webhook of Alice's with this URL."""

    def make(url: str, **changes: Any) -> Webhook:
        secret = secrets.make_secret()
        return Webhook.objects.create(
            **{
                "account": alice,
                "url": url,
                "events": ["order.confirmed"],
                "secret": secrets.encrypt(secret),
                "secret_hint": secrets.hint(secret),
                **changes,
            }
        )

    return make


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that resolve: a list of addresses by name, or a function that returns it. No other name exists."""
    known: dict[str, Any] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> list[Any]:
        found = known.get(host.removesuffix("."), [])
        addresses = found() if callable(found) else found
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [entry for address in addresses for entry in real(address, 443, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(receivers, "LOOKUP_SECONDS", PATIENCE)  # after which any name would be accepted
    return known


@pytest.fixture
def register() -> Callable[..., Webhook]:
    """Register a webhook as the API does, by default for decisions and stock."""
    usual = ["order.confirmed", "order.cancelled", "inventory.updated"]

    def make(account: Account, url: str = "https://shop.example/hooks", events: Any = usual) -> Webhook:
        return registry.register(account.id, url=url, events=events)[0]

    return make


@pytest.fixture
def webhook(alice: Account, register: Callable[..., Webhook]) -> Webhook:
    return register(alice)


@pytest.fixture
def delivery_of() -> Callable[..., Delivery]:
    """Write a delivery to a webhook, in any state."""
    return write_delivery


@pytest.fixture
def make_engine() -> Iterator[Callable[..., Engine]]:
    """Make engines in this process. Their connections are closed when the test ends."""
    made: list[Engine] = []

    def make(**kwargs: Any) -> Engine:
        made.append(Engine(**kwargs))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        for thread in (each._claim_thread, each._result_thread):
            thread.submit(connections.close_all).result(PATIENCE)
            thread.shutdown()
        if each._sender:
            each._sender.close()


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()

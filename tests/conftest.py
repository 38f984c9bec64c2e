"""What every test can ask for: two merchants, their API clients, the service, receivers and engines; and a clean slate
beside the database."""

import gc
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django_ratelimit.core
import pytest
import redis
from django.conf import settings
from django.db import connections
from django.test import Client
from django.urls import get_resolver
from django.utils import translation

from codservice import ratelimit
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
from webhooks import registry, secrets
from webhooks.engine import Engine
from webhooks.models import Delivery, Webhook

# What the web loads before its first request: files that ask what there is, such as the pages of the console, find it.
assert get_resolver().url_patterns
# Nobody runs collectstatic before the tests, and passwords need not be slow to guess.
settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
# Static files are looked up when they are asked for: every client of a test would read them all anew.
settings.WHITENOISE_AUTOREFRESH = True
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
settings.MIDDLEWARE.insert(0, "tests.harness.drift.Recorder")
# On a busy machine Redis may take longer than a request waits for it, which lets everybody pass for two seconds. What
# waits no longer is tried by `limits_by`.
TIMEOUTS = ("socket_timeout", "socket_connect_timeout")
settings.CACHES["default"]["OPTIONS"] |= dict.fromkeys(TIMEOUTS, PATIENCE)
ratelimit.counter = ratelimit.Counter(settings.REDIS_URL, PATIENCE)
memory = redis.Redis.from_url(settings.REDIS_URL)
# The clock by which keys are believed stands still: a request costs the same however long the one before it took.
authentication.time = SimpleNamespace(monotonic=lambda: 0.0)
# So does that of the limits of addresses and logins: no window ends amid a test, however long its tries take.
django_ratelimit.core.time = SimpleNamespace(time=lambda: 1_800_000_000.0)
# A shell that starts the tests in the background has them ignore Ctrl-C, and so would the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, bool, bool]:
    """What is collected stays to the end: nobody looks for garbage in it, as it grows or beside each test.

    Nor does anybody look often: a request alone makes thousands of objects, few of them in a circle. That garbage was
    a tenth of the tests' processor time.
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
    """Keys that were believed, requests that were counted and a page's language do not outlive their test."""
    translation.deactivate()
    authentication._believed.clear()
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
    """Makes a client with a new key of an account: `api_for(alice, scopes=["orders:read"])`."""

    def make(account: Account, **kwargs: Any) -> ApiClient:
        return ApiClient(new_key(account, **kwargs))

    return make


@pytest.fixture
def api(alice: Account, api_for: Callable[..., ApiClient]) -> ApiClient:
    return api_for(alice)


@pytest.fixture
def browser(alice: Account) -> Client:
    """In which Alice's shop is signed in, by its holder; tests of agents have browsers of their own."""
    return browser_of(alice.holder)


@pytest.fixture
def charlies_api(charlie: Account, api_for: Callable[..., ApiClient]) -> ApiClient:
    return api_for(charlie)


@pytest.fixture
def twin(alice: Account) -> Account:
    """Alice's account for tests."""
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
    """Has the limits of keys, people and addresses ask the Redis at a URL, and wait for it as long as requests do."""

    def use(url: str) -> None:
        monkeypatch.setattr(ratelimit, "counter", ratelimit.Counter(url, settings.REDIS_TIMEOUT))
        cache = settings.CACHES["default"]
        options = cache["OPTIONS"] | dict.fromkeys(TIMEOUTS, settings.REDIS_TIMEOUT)
        settings.CACHES = {"default": {**cache, "LOCATION": url, "OPTIONS": options}}

    return use


# --- The service as processes of its own ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _service(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("service") / "log") as service:
        yield service


@pytest.fixture
def service(transactional_db: None, _service: Service) -> Service:
    """The running service, for requests that have to go over a socket or through several processes."""
    return _service


@pytest.fixture
def key(transactional_db: None) -> str:
    """A key with a limit that no test reaches, for the running service."""
    return new_key(factories.AccountFactory(rate_limit=1_000_000))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., OneBox]]:
    """Starts services; what still runs at the end of the test is killed."""
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


# --- Webhooks, who receives them and who sends them ----------------------------------------------------------------


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def webhook_to(alice: Account) -> Callable[..., Webhook]:
    """Makes a webhook of Alice's with this URL."""

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
    """What the resolver knows: a list of addresses by name, or a function to call. No other name exists."""
    known: dict[str, Any] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> list[Any]:
        found = known.get(host.removesuffix("."), [])
        addresses = found() if callable(found) else found
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [entry for address in addresses for entry in real(address, 443, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def register() -> Callable[..., Webhook]:
    """Registers a webhook as the API does; for decisions and stock unless said otherwise."""
    usual = ["order.confirmed", "order.cancelled", "inventory.updated"]

    def make(account: Account, url: str = "https://shop.example/hooks", events: Any = usual) -> Webhook:
        return registry.register(account.id, url=url, events=events)[0]

    return make


@pytest.fixture
def webhook(alice: Account, register: Callable[..., Webhook]) -> Webhook:
    return register(alice)


@pytest.fixture
def delivery_of() -> Callable[..., Delivery]:
    """A delivery to a webhook, as `webhooks.events` writes it, then changed."""
    return write_delivery


@pytest.fixture
def make_engine() -> Iterator[Callable[..., Engine]]:
    """Makes engines for this process; their connections are closed when the test ends."""
    made: list[Engine] = []

    def make(**kwargs: Any) -> Engine:
        made.append(Engine(**kwargs))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        both_threads = threading.Barrier(2)

        def leave(both: threading.Barrier = both_threads) -> None:
            both.wait(PATIENCE)
            connections.close_all()

        for future in [each._database.submit(leave) for _ in range(2)]:
            future.result(PATIENCE)
        each._database.shutdown()
        if each._sender:
            each._sender.close()


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()

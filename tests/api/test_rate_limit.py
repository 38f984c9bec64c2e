"""60 requests a minute and key, exactly, over any number of processes; and no limit while Redis is away."""

import select
import socket
import socketserver
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import redis
from django.conf import settings
from django.db.models.functions import Now
from django.test import RequestFactory

from codservice import ratelimit
from codservice.accounts.key_format import make_key
from codservice.accounts.models import MOST_WORKING_KEYS, ApiKey
from tests.factories import AccountFactory, order_body
from tests.harness.background import asleep, eventually
from tests.harness.client import ApiClient, new_key
from tests.harness.processes import free_port

ORDERS = "/api/v1/orders"
NOBODYS = "0199d9a0-0000-7000-8000-000000000000"
pytestmark = pytest.mark.django_db


def standing(answer):
    return tuple(int(answer.headers[f"X-RateLimit-{name}"]) for name in ("Limit", "Remaining"))


def remains(seconds, began):
    """Return what is left of `seconds` since `began`, less the milliseconds that Redis may round. Call it last."""
    return seconds - (time.monotonic() - began) - 0.01


@pytest.fixture
def window():
    """Move a key's window: `window.ends_in(seconds)`. Redis keeps the time, so it is moved there."""

    class Window:
        server = redis.Redis.from_url(settings.REDIS_URL)

        def ends_in(self, seconds):
            (name,) = self.server.keys("codservice:rate:*")
            self.server.pexpire(name, int(seconds * 1000))

        def left(self):
            (name,) = self.server.keys("codservice:rate:*")
            return self.server.pttl(name) / 1000

    return Window()


def test_of_240_requests_at_once_to_two_processes_exactly_60_pass(service):
    key = new_key()
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: service.send("GET", ORDERS, key=key), range(240)))
    passed = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    assert (len(passed), len(refused)) == (60, 180)
    assert sorted(standing(answer)[1] for answer in passed) == list(range(60))
    for answer in refused:
        assert standing(answer) == (60, 0)
        assert 1 <= int(answer.headers["Retry-After"]) <= 60


def test_a_refused_request_says_when_to_come_back(alice, api_for):
    alice.rate_limit = 1
    alice.save()
    api, began = api_for(alice), time.monotonic()
    api.get(ORDERS)
    answer = api.get(ORDERS)
    assert (answer.status_code, answer.json()["error"]) == (429, "rate_limited")
    assert answer.headers["Retry-After"] == answer.headers["X-RateLimit-Reset"]
    assert remains(60, began) <= int(answer.headers["Retry-After"]) <= 60
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("get", ORDERS, 200),
        ("post", ORDERS, 400),
        ("get", f"{ORDERS}?page=0", 422),
        ("get", f"{ORDERS}/{NOBODYS}", 404),
        ("get", "/api/v1/nothing", 404),
        ("get", f"{ORDERS}/", 404),
        ("delete", ORDERS, 405),
        ("options", ORDERS, 405),
        ("head", ORDERS, 200),
    ],
)
def test_every_answer_to_a_known_key_carries_the_standing(api, method, path, status):
    answer = getattr(api, method)(path)
    assert answer.status_code == status
    assert standing(answer) == (60, 59)
    assert 1 <= int(answer.headers["X-RateLimit-Reset"]) <= 60


def test_malformed_and_unsupported_bodies_and_missing_scopes_count_as_well(alice, api, api_for):
    assert standing(api.post(ORDERS, b"[")) == (60, 59)
    assert standing(api.post(ORDERS, b"x", content_type="text/plain")) == (60, 58)
    answer = api_for(alice, scopes=["webhooks:read"]).get(ORDERS)
    assert (answer.status_code, standing(answer)) == (403, (60, 59))


def test_an_answer_that_the_client_has_already_counts_as_well(api):
    answer = api.get("/api/v1/inventory")
    again = api.get("/api/v1/inventory", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, standing(again)) == (304, (60, 58))


def test_an_account_has_its_own_limit_when_it_is_given_one(api_for):
    assert standing(api_for(AccountFactory(rate_limit=1000)).get(ORDERS)) == (1000, 999)


def test_each_key_has_a_window_of_its_own(alice, api, api_for, charlies_api):
    for _ in range(3):
        api.get(ORDERS)
    assert standing(api_for(alice).get(ORDERS)) == (60, 59)
    assert standing(charlies_api.get(ORDERS)) == (60, 59)


def test_each_of_the_keys_that_an_account_may_have_makes_its_whole_limit(api_for):
    account = AccountFactory(rate_limit=3)
    for key in [api_for(account) for _ in range(MOST_WORKING_KEYS)]:
        assert [standing(key.get(ORDERS)) for _ in range(3)] == [(3, 2), (3, 1), (3, 0)]
        assert key.get(ORDERS).status_code == 429


def test_keys_in_place_of_revoked_ones_share_what_their_account_has(api_for, charlies_api):
    account = AccountFactory(rate_limit=2)
    for _ in range(MOST_WORKING_KEYS - 1):
        key = api_for(account)
        assert [standing(key.get(ORDERS)) for _ in range(2)] == [(2, 1), (2, 0)]
    ApiKey.objects.filter(account=account).update(revoked_at=Now())
    new = [api_for(account) for _ in range(2)]
    assert standing(new[0].get(ORDERS)) == (2, 1)
    last = new[1].get(ORDERS)
    assert (last.status_code, standing(last)) == (200, (2, 0)), "the account has no more left, though the key has"
    for key in new:
        refused = key.get(ORDERS)
        assert (refused.status_code, standing(refused)) == (429, (2, 0))
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert charlies_api.get(ORDERS).status_code == 200


def test_what_a_key_is_refused_uses_up_nothing_of_its_account(api_for):
    account = AccountFactory(rate_limit=1)
    busy, other = api_for(account), api_for(account)
    assert [busy.get(ORDERS).status_code for _ in range(20)] == [200] + [429] * 19
    assert other.get(ORDERS).status_code == 200


def test_a_refusal_for_the_accounts_sake_uses_up_nothing_of_the_key(api_for, window):
    account = AccountFactory(rate_limit=1)
    for _ in range(MOST_WORKING_KEYS):
        api_for(account).get(ORDERS)
    ApiKey.objects.filter(account=account).update(revoked_at=Now())
    key = api_for(account)
    assert key.get(ORDERS).status_code == 429
    window.server.delete(f"codservice:account-rate:{account.id}")
    assert standing(key.get(ORDERS)) == (1, 0)


def test_the_window_is_fixed_and_a_refused_request_does_not_lengthen_it(api_for, window):
    api, began = api_for(AccountFactory(rate_limit=2)), time.monotonic()
    api.get(ORDERS)
    assert 60 >= window.left() >= remains(60, began)
    began = time.monotonic()
    window.ends_in(30)
    told = [api.get(ORDERS).headers["X-RateLimit-Reset"]]
    told += [api.get(ORDERS).headers["Retry-After"] for _ in range(5)]
    assert 30 >= window.left() >= remains(30, began)
    assert all(remains(30, began) <= int(each) <= 30 for each in told)


def test_after_retry_after_the_next_request_passes(api_for, window):
    api = api_for(AccountFactory(rate_limit=1))
    api.get(ORDERS)

    def refused():
        window.ends_in(0.6)
        answer = api.get(ORDERS)
        return answer.status_code == 429 and answer  # unless the window has ended before

    assert eventually(refused).headers["Retry-After"] == "1"
    time.sleep(1)
    answer = api.get(ORDERS)
    assert (answer.status_code, standing(answer), answer.headers["X-RateLimit-Reset"]) == (200, (1, 0), "60")


def test_where_redis_clock_is_set_back_a_window_ends_after_a_minute_all_the_same(api_for, window):
    """Redis decides by its own clock when a window ends."""
    api = api_for(AccountFactory(rate_limit=1))
    api.get(ORDERS)
    window.ends_in(3600)
    answer = api.get(ORDERS)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    assert window.left() <= 60


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X_Forwarded_For", "Client-IP"])
def test_no_header_gives_a_key_another_window(api, header):
    for number in range(3):
        answer = api.get(ORDERS, headers={header: f"10.0.0.{number}"})
    assert standing(answer) == (60, 57)


def test_when_redis_forgets_everything_counting_starts_anew(api, window):
    api.get(ORDERS)
    window.server.flushdb()
    window.server.script_flush()
    assert standing(api.get(ORDERS)) == (60, 59)


# --- Redis away -----------------------------------------------------------------------------------------------------


@pytest.fixture
def hung_redis():
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


@pytest.fixture
def refused_redis():
    return f"redis://127.0.0.1:{free_port()}/0"


@pytest.fixture(params=["hung_redis", "refused_redis"])
def away(request, limits_by):
    """Redis is away, for the limits of keys and of addresses."""
    limits_by(request.getfixturevalue(request.param))


def timed(call):
    """Return the answer, and the seconds for which this thread slept."""
    before = asleep()
    answer = call()
    return answer, asleep() - before


def test_without_redis_the_api_serves_and_the_next_requests_are_fast(away, api, caplog):
    answer, seconds = timed(lambda: api.post(ORDERS, order_body()))
    assert (answer.status_code, standing(answer)) == (201, (60, 60))
    assert seconds < 0.8
    answers = [timed(lambda: api.get(ORDERS)) for _ in range(70)]
    assert {answer.status_code for answer, _ in answers} == {200}
    assert median(seconds for _, seconds in answers) < settings.REDIS_TIMEOUT / 2
    assert "requests are not limited, because Redis does not answer" in caplog.text


def test_without_redis_a_stranger_still_gets_401(away, stranger):
    answer, seconds = timed(lambda: stranger.get(ORDERS))
    assert answer.status_code == 401
    assert seconds < 0.8
    answers = [timed(lambda: stranger.get(ORDERS)) for _ in range(20)]
    assert {answer.status_code for answer, _ in answers} == {401}
    assert median(seconds for _, seconds in answers) < settings.REDIS_TIMEOUT / 2


class Way(socketserver.BaseRequestHandler):
    """A connection to the tests' Redis."""

    def handle(self) -> None:
        place = redis.Redis.from_url(settings.REDIS_URL).connection_pool.connection_kwargs
        if path := place.get("path"):
            there = socket.socket(socket.AF_UNIX)
            there.connect(path)
        else:
            there = socket.create_connection((place["host"], place["port"]))
        with there:
            while True:
                for one in select.select([self.request, there], [], [])[0]:
                    if not (piece := one.recv(65536)):
                        return
                    (there if one is self.request else self.request).sendall(piece)


def test_counting_goes_on_when_redis_is_back(refused_redis, api, monkeypatch):
    counter = ratelimit.Counter(refused_redis, settings.REDIS_CLIENT)
    monkeypatch.setattr(ratelimit, "counter", counter)
    assert standing(api.get(ORDERS)) == (60, 60)
    address = urlsplit(refused_redis)
    with socketserver.ThreadingTCPServer((address.hostname, address.port), Way) as back:
        back.daemon_threads = True
        threading.Thread(target=back.serve_forever, daemon=True).start()
        assert counter.is_paused
        assert standing(api.get(ORDERS)) == (60, 60)
        eventually(lambda: not counter.is_paused)
        assert standing(api.get(ORDERS)) == (60, 59)
        back.shutdown()


# --- Requests without a key -----------------------------------------------------------------------------------------


def guess(address="192.0.2.1", **headers):
    return ApiClient().get(ORDERS, REMOTE_ADDR=address, headers={"Authorization": "Bearer nonsense", **headers})


@pytest.fixture
def clock(monkeypatch):
    """The clock of the windows of addresses: `clock.now` can be set."""
    clock = SimpleNamespace(now=1_800_000_000.0)
    monkeypatch.setattr("django_ratelimit.core.time", SimpleNamespace(time=lambda: clock.now))
    return clock


@pytest.fixture
def few_guesses(clock, monkeypatch):
    monkeypatch.setattr(ratelimit, "ADDRESS_LIMIT", 3)


def test_an_address_has_300_guesses_a_minute():
    assert [guess().status_code for _ in range(303)] == [401] * 300 + [429] * 3


@pytest.mark.usefixtures("clock")
def test_an_address_may_ask_for_the_description_as_often(client):
    answers = [client.get("/api/schema", REMOTE_ADDR="192.0.2.1") for _ in range(301)]
    assert [answer.status_code for answer in answers] == [200] * 300 + [429]
    refused = answers[-1]
    assert (refused.headers["Content-Type"], refused.json()["error"]) == ("application/json", "rate_limited")
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert client.get("/api/schema", REMOTE_ADDR="192.0.2.2").status_code == 200


def test_after_retry_after_a_guesser_may_try_again(few_guesses, clock):
    for _ in range(4):
        answer = guess()
    clock.now += int(answer.headers["Retry-After"]) - 1
    assert guess().status_code == 429
    clock.now += 1
    assert guess().status_code == 401


def test_a_guesser_is_told_when_to_come_back_and_others_are_not_disturbed(few_guesses, api):
    answers = [guess() for _ in range(5)]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
    assert answers[-1].json()["error"] == "rate_limited"
    assert guess("192.0.2.2").status_code == 401
    assert standing(api.get(ORDERS, REMOTE_ADDR="192.0.2.1")) == (60, 59)


def test_a_guesser_cannot_pretend_to_be_elsewhere(few_guesses):
    statuses = [guess(**{"X-Forwarded-For": f"10.0.0.{n}"}).status_code for n in range(4)]
    assert statuses[-1] == 429


def test_behind_trusted_proxies_their_word_counts_and_nothing_before_it(few_guesses, settings):
    settings.TRUSTED_PROXIES = 1
    statuses = [guess(**{"X-Forwarded-For": f"10.0.0.{n}, 198.51.100.7"}).status_code for n in range(4)]
    assert statuses[-1] == 429
    assert guess(**{"X-Forwarded-For": "198.51.100.8"}).status_code == 401


def test_an_ipv6_subscriber_is_one_address_whichever_of_theirs_they_use(few_guesses):
    statuses = [guess(f"2001:db8:1:2:{n:x}::{n}").status_code for n in range(4)]
    assert statuses == [401, 401, 401, 429]
    assert guess("2001:db8:1:3::1").status_code == 401
    assert guess("2001:DB8:1:2:ffff:ffff:ffff:ffff").status_code == 429


@pytest.mark.parametrize(
    "written", ["192.0.2.1:{n}", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:{n}", " 192.0.2.1", "::FFFF:c000:0201"]
)
def test_an_address_is_one_however_a_proxy_writes_it(written, few_guesses, settings):
    settings.TRUSTED_PROXIES = 1
    sent = [guess("10.0.0.1", **{"X-Forwarded-For": written.format(n=40_000 + n)}).status_code for n in range(3)]
    assert sent == [401] * 3
    assert guess("10.0.0.1", **{"X-Forwarded-For": "192.0.2.1"}).status_code == 429


@pytest.mark.parametrize("written", ["[2001:db8::{n:x}]:{n}", "2001:db8::{n:x}", "[2001:db8::{n:x}]"])
def test_an_ipv6_address_is_one_however_a_proxy_writes_it(written, few_guesses, settings):
    settings.TRUSTED_PROXIES = 1
    sent = [guess("10.0.0.1", **{"X-Forwarded-For": written.format(n=n + 1)}).status_code for n in range(4)]
    assert sent == [401, 401, 401, 429]


def test_what_a_proxy_says_that_is_no_address_counts_as_the_proxys_own(few_guesses, settings):
    settings.TRUSTED_PROXIES = 1
    for said in ("unknown", "_hidden7", "", "1.2.3", "a:b:c:d", "fe80::1%eth0%1", "[", "1.2.3.4.5:80"):
        request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": said})
        assert ratelimit.client_address(request) == "10.0.0.1", said


def test_the_log_is_told_the_address_itself(settings):
    request = RequestFactory().get("/", REMOTE_ADDR="2001:DB8:0:0::7")
    assert ratelimit.client_address(request) == "2001:db8::7"
    assert ratelimit.client_network(request) == "2001:db8::/64"
    nobody = RequestFactory().get("/", REMOTE_ADDR="")
    assert (ratelimit.client_address(nobody), ratelimit.client_network(nobody)) == ("unknown", "unknown")


def test_guesses_do_not_fill_redis(window):
    """Not those either that are well formed, so that they are looked for."""
    before = window.server.dbsize()
    for _ in range(50):
        assert guess(Authorization=f"Bearer {make_key()}").status_code == 401
    assert window.server.dbsize() <= before + 2

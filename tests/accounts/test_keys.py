"""API keys: what they look like, what is stored of them, and when they open the door."""

import re
import string
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest
import redis
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from codservice.accounts import authentication
from codservice.accounts.key_format import digest_of, is_key, make_key
from codservice.accounts.models import SCOPES, Account, ApiKey, TooManyKeys, User
from tests.factories import UserFactory, make_order, order_body
from tests.harness.background import at_once
from tests.harness.broker import redis_texts
from tests.harness.client import ApiClient

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db


@pytest.fixture
def key(alice):
    return ApiKey.issue(alice, name="Shop")[1]


def ask(header, **headers):
    return ApiClient().get(ORDERS, headers={"Authorization": header, **headers})


@pytest.fixture
def clock(monkeypatch):
    """The clock of the cache of keys: `clock.pass_(seconds)`."""

    class Clock:
        now = monotonic()

        def pass_(self, seconds):
            self.now += seconds

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(authentication, "time", clock)
    return clock


# --- The form of a key ----------------------------------------------------------------------------------------------


def test_a_key_can_be_recognised_by_scanners():
    for _ in range(200):
        assert re.fullmatch(r"cod_live_[0-9A-Za-z]{43}[0-9A-Za-z]{6}", make_key())


def test_keys_are_random_all_over():
    keys = [make_key().removeprefix("cod_live_")[:43] for _ in range(300)]
    assert len(set(keys)) == 300
    for place in range(43):
        assert len({key[place] for key in keys}) > 40


def test_a_key_with_any_character_changed_is_no_key():
    key = make_key()
    for place in range(len(key)):
        other = "b" if key[place] == "a" else "a"
        assert not is_key(key[:place] + other + key[place + 1 :])


@given(
    st.text(max_size=70)
    | st.text(string.ascii_letters + string.digits, min_size=49, max_size=49).map("cod_live_".__add__)
)
def test_no_other_text_is_a_key(text):
    assert not is_key(text)


# --- What is kept ---------------------------------------------------------------------------------------------------


def test_nothing_of_a_key_is_stored_but_its_digest_and_first_characters(alice, key, api_for):
    ask(f"Bearer {key}")
    ApiClient(key).post(ORDERS, order_body(), headers={"Idempotency-Key": "1"})
    row = ApiKey.objects.get()
    assert (bytes(row.digest), row.prefix) == (digest_of(key), key[:12])
    dump = ""
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            cursor.execute(f"SELECT t::text FROM {connection.ops.quote_name(model._meta.db_table)} AS t")
            dump += "\n".join(line for (line,) in cursor.fetchall())
    assert digest_of(key).hex() in dump
    for start in range(len(key) - 12):
        assert key[start : start + 13] not in dump
    assert key.encode().hex() not in dump


def test_a_key_is_in_no_redis_page_or_answer(alice, key, client):
    answers = [ApiClient(key).get(ORDERS), ApiClient(key).post(ORDERS, {}), ask(f"Bearer {key}x")]
    operator = UserFactory(is_staff=True, is_superuser=True)
    id_ = ApiKey.objects.get().id
    for person, path in (
        (alice.holder, reverse("api-keys")),
        (alice.holder, reverse("revoke-key", args=[id_])),
        (alice.holder, reverse("quick-start")),
        (operator, reverse("admin:accounts_apikey_changelist")),
        (operator, reverse("admin:accounts_apikey_change", args=[id_])),
        (operator, reverse("admin:accounts_apikey_history", args=[id_])),
    ):
        client.force_login(person)
        answers.append(client.get(path))
        assert answers[-1].status_code == 200, path
    counters = redis.Redis.from_url(settings.REDIS_URL)
    seen = [answer.content.decode() + str(answer.headers) for answer in answers]
    seen += redis_texts(counters)
    assert len(seen) > len(answers), "the request was counted"
    for text in seen:
        assert not any(key[start : start + 13] in text for start in range(len(key) - 12))


def test_a_key_is_in_no_log_line(key, caplog):
    caplog.set_level("DEBUG")
    ask(f"Bearer {key}")
    ask(f"Bearer {key}x")
    ApiClient().get(f"{ORDERS}?key={key}")
    assert key not in caplog.text


def test_a_new_key_has_all_scopes_unless_fewer_are_chosen(alice):
    assert ApiKey.issue(alice, name="All")[0].scopes == list(SCOPES)
    assert ApiKey.issue(alice, name="One", scopes=["orders:read"])[0].scopes == ["orders:read"]


# --- Who gets in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer "])
def test_a_valid_key_opens_however_bearer_is_written(key, scheme):
    assert ask(f"{scheme} {key}").status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "{key}",
        "Bearer{key}",
        "Bearer \t{key}",
        "Bearer\t{key}",
        "Bearer {key} ",
        "Bearer {key},",
        "Bearer {key}x",
        "Bearer {key}\x00",
        "Bearer {key}\n",
        "Bearer {key}é",
        "Bearer {key},Bearer {key}",
        "Bearer {key}, Bearer {key}",
        'Bearer "{key}"',
        "Bearer {prefix}",
        "Bearer {short}",
        "Bearer {lower}",
        "Basic {key}",
        "Token {key}",
        "Digest {key}",
        "Bearer cod_live_",
        "Bearer ' OR 1=1 --",
        "Bearer ١٢٣",
        "Bearer \ud800",
        "Bearer " + "a" * 10_000,
    ],
)
def test_anything_else_is_401(key, header):
    text = header.format(key=key, prefix=key[:12], short=key[:-1], lower=key.lower())
    answer = ask(text)
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Content-Type"] == "application/json"


def test_a_key_that_nobody_has_is_401(db):
    assert ask(f"Bearer {make_key()}").status_code == 401


def test_a_key_counts_in_no_other_place(key):
    client = ApiClient()
    assert client.get(f"{ORDERS}?api_key={key}&access_token={key}").status_code == 401
    assert client.post(ORDERS, {**order_body(), "api_key": key}).status_code == 401
    assert client.get(ORDERS, headers={"X-Api-Key": key, "Cookie": f"Authorization=Bearer {key}"}).status_code == 401


def test_a_session_is_no_key(alice):
    client = ApiClient()
    client.force_login(alice.holder)
    assert client.get(ORDERS).status_code == 401


def test_a_revoked_key_is_refused_within_a_second(key, clock):
    assert ask(f"Bearer {key}").status_code == 200
    ApiKey.objects.update(revoked_at=datetime.now(UTC))
    clock.pass_(1.0)
    assert ask(f"Bearer {key}").status_code == 401


def test_a_key_is_trusted_for_no_more_than_a_second():
    assert authentication.TRUSTED_FOR <= 1


def test_a_trusted_key_costs_no_query(key, clock, django_assert_num_queries):
    ask(f"Bearer {key}")
    clock.pass_(0.9)
    with django_assert_num_queries(0):
        assert authentication.find_key(f"Bearer {key}").name == "Shop"


def test_an_expired_key_is_refused_at_the_moment_it_expires(key, clock, monkeypatch):
    monkeypatch.setattr(authentication, "TRUSTED_FOR", 60)
    ApiKey.objects.update(expires_at=Now() + timedelta(seconds=20))
    assert ask(f"Bearer {key}").status_code == 200
    ApiKey.objects.update(expires_at=Now() - timedelta(minutes=1))
    clock.pass_(19)
    assert ask(f"Bearer {key}").status_code == 200
    clock.pass_(21)  # on top of the seconds for which the test's transaction has been open
    assert ask(f"Bearer {key}").status_code == 401, "even while it is trusted"


def test_a_key_that_has_expired_is_refused(alice):
    _, key = ApiKey.issue(alice, name="Old", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert ask(f"Bearer {key}").status_code == 401


def test_the_keys_of_an_inactive_account_stop_working(key, clock):
    assert ask(f"Bearer {key}").status_code == 200
    Account.objects.update(is_active=False)
    clock.pass_(1.0)
    assert ask(f"Bearer {key}").status_code == 401


def test_keys_work_only_while_their_accounts_holder_may_sign_in(alice, key, clock):
    assert ask(f"Bearer {key}").status_code == 200
    alice.holder.deactivate()
    clock.pass_(1.0)
    assert ask(f"Bearer {key}").status_code == 401
    User.objects.update(is_active=True)
    assert ask(f"Bearer {key}").status_code == 200


def test_a_401_says_what_is_wrong_with_the_key(key, clock, django_assert_num_queries):
    def said(header):
        clock.pass_(1.0)
        with django_assert_num_queries(header == f"Bearer {key}"):
            answer = ask(header)
        assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        return answer.json()["message"]

    assert said("") == "Send a valid API key: Authorization: Bearer <API_KEY>."
    for header in (key, f"Basic {key}", f"Bearer {key[:-1]}", f"Bearer {key[:-1]}é"):
        assert said(header).startswith("The Authorization header has no whole API key.")
    keys, past = ApiKey.objects, datetime(2026, 1, 29, 22, 30, 5, 700, tzinfo=UTC)
    keys.update(expires_at=past)
    assert said(f"Bearer {key}").startswith("This API key expired at 2026-01-29T22:30:05Z. Make a new one")
    Account.objects.update(is_active=False)
    assert said(f"Bearer {key}").startswith("The account of this API key is closed, or the person who holds it may not")
    Account.objects.update(is_active=True)
    User.objects.update(is_active=False)
    assert said(f"Bearer {key}").startswith("The account of this API key is closed, or the person who holds it may not")
    keys.update(revoked_at=past)
    assert said(f"Bearer {key}").startswith("This API key was revoked at 2026-01-29T22:30:05Z. Make a new one")
    keys.all().delete()
    assert said(f"Bearer {key}").startswith("This API key is not known here.")


def test_a_test_keys_401_speaks_of_the_account_whose_twin_it_is_for(alice, clock):
    _, key = ApiKey.issue(alice, name="Test", is_test=True)
    Account.objects.filter(live=None).update(is_active=False)
    assert ask(f"Bearer {key}").json()["message"].startswith("The account of this API key is closed")


def test_an_account_has_twenty_live_keys_at_most(alice, charlie):
    for number in range(20):
        row, _ = ApiKey.issue(alice, name=str(number))
    with pytest.raises(TooManyKeys, match="20 working keys"):
        ApiKey.issue(alice, name="One more")
    ApiKey.issue(charlie, name="Theirs")
    row.revoke()
    row, _ = ApiKey.issue(alice, name="In its place")
    ApiKey.objects.filter(pk=row.pk).update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    ApiKey.issue(alice, name="For an expired one")
    with pytest.raises(TooManyKeys):
        ApiKey.issue(alice, name="One more")


@pytest.mark.django_db(transaction=True)
def test_keys_that_are_made_at_once_are_counted_as_well(alice):
    for number in range(18):
        ApiKey.issue(alice, name=str(number))

    def issue(number):
        try:
            return ApiKey.issue(alice, name="At once")
        except TooManyKeys:
            return None

    assert sum(made is not None for made in at_once(8, issue)) == 2
    assert alice.api_keys.count() == 20


def test_the_service_stays_open_when_more_keys_come_than_it_trusts(alice, monkeypatch):
    monkeypatch.setattr(authentication, "_MAX_TRUSTED", 2)
    for number in range(5):
        assert ask(f"Bearer {ApiKey.issue(alice, name=str(number))[1]}").status_code == 200
    assert len(authentication._trusted) <= 2


def test_unknown_keys_are_not_remembered(db):
    for _ in range(5):
        ask(f"Bearer {make_key()}")
    assert authentication._trusted == {}


# --- Last use -------------------------------------------------------------------------------------------------------


def test_the_last_use_is_noted_at_most_once_a_minute(key, clock):
    assert ApiKey.objects.get().last_used_at is None
    ask(f"Bearer {key}")
    first = ApiKey.objects.get().last_used_at
    assert abs(first - datetime.now(UTC)) < timedelta(minutes=1)
    clock.pass_(2)
    ask(f"Bearer {key}")
    assert ApiKey.objects.get().last_used_at == first
    long_ago = first - timedelta(seconds=61)
    ApiKey.objects.update(last_used_at=long_ago)
    clock.pass_(2)
    ask(f"Bearer {key}")
    assert ApiKey.objects.get().last_used_at > long_ago


def test_a_refused_key_is_not_noted_as_used(key):
    ApiKey.objects.update(revoked_at=datetime.now(UTC))
    ask(f"Bearer {key}")
    assert ApiKey.objects.get().last_used_at is None


# --- Scopes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "method", "path", "status"),
    [
        ("orders:read", "get", ORDERS, 200),
        ("orders:read", "get", "{order}", 200),
        ("orders:write", "post", ORDERS, 201),
        ("orders:write", "post", "{order}/cancel", 200),
    ],
)
def test_each_call_needs_its_scope_and_no_other(alice, api_for, scope, method, path, status):
    path = path.format(order=f"{ORDERS}/{make_order(alice).id}")
    body = order_body() if path == ORDERS else {}
    assert getattr(api_for(alice, scopes=[scope]), method)(path, body).status_code == status
    answer = getattr(api_for(alice, scopes=[other for other in SCOPES if other != scope]), method)(path, body)
    assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")
    assert scope in answer.json()["message"]


def test_a_key_of_one_account_shows_nothing_of_another(charlie, alice, api_for):
    make_order(alice)
    assert api_for(charlie).get(ORDERS).json()["data"] == []

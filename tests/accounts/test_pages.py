"""The account's pages: API keys, and the pages for errors."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from uuid import UUID

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from codservice.accounts.models import SCOPES, Account, ApiKey
from codservice.days import ALGIERS
from inventory.models import Product
from tests import factories
from tests.harness.client import browser_of


def make_key(browser: Client, **changes: Any) -> Any:
    return browser.post("/account/keys", {"name": "Shop", "scopes": list(SCOPES), "last_day": "", **changes})


def keys_in(response: Any) -> list[str]:
    return re.findall(r"cod_live_[0-9A-Za-z]{49}", response.content.decode())


def test_a_new_key_is_shown_once_and_works(alice: Account, browser: Client) -> None:
    response = make_key(browser)
    assert response.status_code == 201
    (key,) = keys_in(response)
    row = alice.api_keys.get()
    assert (row.name, row.scopes, row.expires_at) == ("Shop", list(SCOPES), None)
    assert Client().get("/api/v1/orders", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    again = browser.get("/account/keys")
    assert keys_in(again) == []
    assert f"{key[:12]}…" in again.content.decode()


def test_a_second_press_makes_no_second_key(alice: Account, browser: Client) -> None:
    """The same when the answer is loaded again: nobody would ever see the first key."""
    make_key(browser)
    again = make_key(browser)
    assert (again.status_code, keys_in(again)) == (422, [])
    assert "A working key already has this name" in again.content.decode()
    assert make_key(browser, name="Stock").status_code == 201
    assert make_key(browser, works="test").status_code == 201, "test mode has names of its own"
    ApiKey.objects.filter(name="Shop").update(revoked_at=timezone.now())
    browser.post("/account/mode", {"to": "live"})
    assert make_key(browser).status_code == 201
    assert alice.api_keys.filter(revoked_at=None).count() == 2


def test_a_key_may_do_what_was_ticked_until_the_end_of_its_last_day(alice: Account, browser: Client) -> None:
    today = timezone.localdate(timezone=ALGIERS)
    assert make_key(browser, scopes=["orders:read"], last_day=today.isoformat()).status_code == 201
    row = alice.api_keys.get()
    assert row.scopes == ["orders:read"]
    assert timezone.localtime(row.expires_at, ALGIERS).isoformat()[:19] == f"{today + timedelta(days=1)}T00:00:00"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\x00"},
        {"name": "a\x1b[2J"},
        {"scopes": []},
        {"scopes": ["orders:all"]},
        {"last_day": "2020-01-01"},
        {"last_day": "9999-12-31"},
        {"last_day": "soon"},
    ],
)
def test_an_unusable_form_makes_no_key(changes: dict, browser: Client) -> None:
    response = make_key(browser, **changes)
    assert response.status_code == 422
    assert 'class="problem"' in response.content.decode()
    assert ApiKey.objects.count() == 0


def test_the_twenty_first_live_key_is_refused_in_words(alice: Account, browser: Client) -> None:
    for number in range(20):
        ApiKey.issue(alice, name=str(number))
    response = make_key(browser)
    assert response.status_code == 422
    assert "20 working keys, which is the maximum" in response.content.decode()
    for number in range(20):
        ApiKey.issue(alice, name=str(number), is_test=True)
    response = browser.post("/account/quick-start", follow=True)
    assert 'data-mode="test"' in response.content.decode()
    assert response.redirect_chain == [("/account/keys", 302)]
    said = "20 working keys, which is the maximum. Its holder has to revoke one first."
    assert said in response.content.decode(), "to a manager too, who cannot"
    assert alice.api_keys.count() == 20


def test_a_key_is_said_to_work_until_the_day_that_was_entered(alice: Account, browser: Client) -> None:
    """One that a program made may end in the middle of a day."""
    make_key(browser, last_day="2099-12-31")
    for moment, said in ((None, "31 Dec. 2099"), (datetime(2099, 12, 31, 11, tzinfo=UTC), "31 Dec. 2099, 12:00")):
        if moment:
            ApiKey.objects.update(expires_at=moment)
        shown = browser.get("/account/keys").content.decode()
        assert re.findall(r'data-label="Works until"><time[^>]*>(.*?)</time>', shown) == [said]


def test_revoking_stops_the_key(alice: Account, browser: Client) -> None:
    row, key = ApiKey.issue(alice, name="Old")
    asked = browser.get(f"/account/keys/{row.id}/revoke")
    assert "Revoke the key “Old”?" in asked.content.decode()
    assert ApiKey.objects.get().revoked_at is None
    for _ in range(2):
        assert browser.post(f"/account/keys/{row.id}/revoke").url == "/account/keys"
    first = ApiKey.objects.get().revoked_at
    assert first is not None
    assert Client().get("/api/v1/orders", headers={"Authorization": f"Bearer {key}"}).status_code == 401
    assert "revoked <time" in browser.get("/account/keys").content.decode()


def test_a_key_that_has_ended_says_so_and_since_when(alice: Account, browser: Client) -> None:
    row, _ = ApiKey.issue(alice, name="Old")
    end = datetime(2026, 1, 31, 23, tzinfo=UTC)
    ApiKey.objects.update(expires_at=end)

    def cell() -> tuple[str, bool]:
        shown = browser.get("/account/keys").content.decode()
        (found,) = re.findall(r'data-label="Works until">(\w+) <time[^>]*>(.*?)</time>', shown)
        return " ".join(found), f"/account/keys/{row.id}/revoke" in shown

    assert cell() == ("expired 31 Jan. 2026", False)
    assert browser.post(f"/account/keys/{row.id}/revoke").url == "/account/keys", "from a page of before"
    assert cell() == ("expired 31 Jan. 2026", False), "it really ended on that day"
    ApiKey.objects.update(revoked_at=end - timedelta(days=9))
    assert cell() == ("revoked 23 Jan. 2026", False), "revoked before its end"
    ApiKey.objects.update(revoked_at=None, expires_at=timezone.now() + timedelta(days=1))
    assert f"/account/keys/{row.id}/revoke" in browser.get("/account/keys").content.decode()


def test_of_very_many_keys_those_that_work_are_shown_and_the_latest_others(alice: Account, browser: Client) -> None:
    for number in range(20):
        ApiKey.issue(alice, name=f"works {number}")
    now = timezone.now()
    ApiKey.objects.bulk_create(
        ApiKey(account=alice, name=name, digest=name.encode(), prefix="cod_live_abc", scopes=[], **ended)
        for n in range(100)
        for name, ended in (
            (f"revoked {n}.", {"revoked_at": now - timedelta(days=n)}),
            (f"expired {n}.", {"expires_at": now - timedelta(days=n, hours=1)}),
        )
    )
    text = browser.get("/account/keys").content.decode()
    ended = [f"{how} {n}." for n in range(40) for how in ("revoked", "expired")]
    assert re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', text) == [*(f"works {n}" for n in range(19, -1, -1)), *ended]
    assert "Keys that stopped working earlier are not shown." in text


def test_an_account_sees_and_revokes_its_own_keys_alone(alice: Account, charlie: Account, browser: Client) -> None:
    row, _ = ApiKey.issue(charlie, name="Charlie's key")
    assert "Charlie" not in browser.get("/account/keys").content.decode()
    assert browser.get(f"/account/keys/{row.id}/revoke").status_code == 404
    assert browser.post(f"/account/keys/{row.id}/revoke").status_code == 404
    row.refresh_from_db()
    assert row.revoked_at is None
    make_key(browser)
    assert charlie.api_keys.count() == 1


def test_who_holds_no_account_sees_none(db: None, alice: Account) -> None:
    row, _ = ApiKey.issue(alice, name="Shop")
    nobody = browser_of(factories.UserFactory())
    response = nobody.get("/account/keys")
    assert response.status_code == 403
    assert "You cannot open this page" in response.content.decode()
    assert make_key(nobody).status_code == 403
    assert nobody.post(f"/account/keys/{row.id}/revoke").status_code == 403
    assert ApiKey.objects.count() == 1


def test_the_forms_need_the_csrf_token(alice: Account) -> None:
    strict = browser_of(alice.holder, enforce_csrf_checks=True)
    row, _ = ApiKey.issue(alice, name="Shop")
    assert make_key(strict).status_code == 403
    assert strict.post(f"/account/keys/{row.id}/revoke").status_code == 403
    assert alice.api_keys.get().revoked_at is None


class _Fields(HTMLParser):
    """The fields of the form in `main`, as a browser sends them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, list[str]] = {}
        self.feed(page.partition("<main")[2])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input":
            self.fields.setdefault(str(given["name"]), []).append(given["value"] or "")


def test_what_was_written_before_another_sign_in_is_sent_with_a_press(alice: Account) -> None:
    browser = browser_of(alice.holder, enforce_csrf_checks=True)
    browser.get("/account/keys")
    browser.cookies["csrftoken"] = "n" * 32  # as changed by a sign-in in another tab
    ours = {"headers": {"Origin": "http://testserver"}}
    written = {"name": 'Shop "été"\n<b>', "scopes": ["orders:read", "orders:write"], "last_day": ""}
    refused = browser.post("/account/keys", written | {"csrfmiddlewaretoken": "o" * 64}, **ours)
    assert refused.status_code == 403
    assert "no-store" in refused.headers["Cache-Control"]
    assert ApiKey.objects.count() == 0
    assert f"You are signed in as {alice.holder.display_name}," in refused.content.decode()
    fields = _Fields(refused.content.decode()).fields
    assert {name: fields[name] for name in written} == {
        name: [*([v] if isinstance(v, str) else v)] for name, v in written.items()
    }
    assert fields["csrfmiddlewaretoken"] != ["o" * 64]
    assert browser.post("/account/keys", fields | {"name": "Shop"}, **ours).status_code == 201
    assert alice.api_keys.get().scopes == ["orders:read", "orders:write"]


@pytest.mark.parametrize(("mode", "now"), [("test", "live"), ("live", "test")])
def test_it_is_sent_in_the_mode_in_which_it_was_written(alice: Account, mode: str, now: str) -> None:
    """A sign-in begins in the live account."""
    ApiKey.issue(alice, name="Till", is_test=True)
    browser = browser_of(alice.holder)
    browser.post("/account/mode", {"to": now})
    browser.handler.enforce_csrf_checks = True
    browser.cookies["csrftoken"] = "n" * 32
    ours = {"headers": {"Origin": "http://testserver"}}
    written = {"mode": mode, "name": "Robe", "sku": "ROBE-1", "price": "2500", "stock_quantity": "1"}
    refused = browser.post("/account/products/new", written | {"csrfmiddlewaretoken": "o" * 64}, **ours)
    page = refused.content.decode()
    assert ('data-mode="test"' in page) == (mode == "test")
    assert browser.post("/account/products/new", _Fields(page).fields, **ours).status_code == 302
    assert Product.objects.get().account == (alice.twin if mode == "test" else alice)


@pytest.mark.parametrize(("origin", "kept"), [("https://shop.example", ["Written"]), ("https://a.shop.example", [])])
def test_so_it_is_behind_a_proxy_that_changes_the_host(
    alice: Account, settings: Any, origin: str, kept: list[str]
) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://shop.example", "https://*.shop.example"]
    browser = browser_of(alice.holder, enforce_csrf_checks=True)
    browser.cookies["csrftoken"] = "n" * 32
    data = {"name": "Written", "csrfmiddlewaretoken": "o" * 64}
    refused = browser.post("/account/keys", data, headers={"Origin": origin})
    assert refused.status_code == 403
    assert _Fields(refused.content.decode()).fields.get("name", []) == kept


@pytest.mark.parametrize(
    ("origin", "more"),
    [
        ("", {}),
        ("https://evil.example", {}),
        ("null", {}),
        ("http://testserver", {"csrfmiddlewaretoken": ""}),
        ("http://testserver", {"new_password1": "x"}),
        ("http://testserver", {"file": SimpleUploadedFile("a.csv", b"a")}),
    ],
)
def test_what_a_stranger_may_have_written_or_must_not_be_seen_is_not_given_back(
    alice: Account, origin: str, more: dict[str, Any]
) -> None:
    browser = browser_of(alice.holder, enforce_csrf_checks=True)
    browser.cookies["csrftoken"] = "n" * 32
    data = {"name": "Written", "csrfmiddlewaretoken": "o" * 64, **more}
    refused = browser.post("/account/keys", data, headers={"Origin": origin} if origin else {})
    assert refused.status_code == 403
    assert "Written" not in refused.content.decode()
    assert _Fields(refused.content.decode()).fields == {}


def test_pages_are_not_stored_framed_or_scripted_from_elsewhere(browser: Client) -> None:
    for response in (browser.get("/account/keys"), make_key(browser), Client().get("/account/login"), browser.get("/")):
        assert "no-store" in response.headers["Cache-Control"]
        assert response.headers["X-Frame-Options"] == "DENY"
        assert "unsafe" not in response.headers["Content-Security-Policy"]
        assert "camera=(), " in response.headers["Permissions-Policy"]


def test_a_closed_account_is_told_so_and_changes_nothing(alice: Account, browser: Client) -> None:
    row, _ = ApiKey.issue(alice, name="Shop")
    Account.objects.update(is_active=False)
    page = browser.get("/account/keys").content.decode()
    assert "This account is closed: its keys do not work, and nothing can be changed any more." in page
    assert '<a href="/account/data">Take out its data</a>' in page
    assert make_key(browser).url == "/account/"
    assert browser.post(f"/account/keys/{row.id}/revoke").url == "/account/"
    assert alice.api_keys.get().revoked_at is None


def test_the_number_of_queries_does_not_depend_on_the_keys(
    alice: Account, browser: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        ApiKey.issue(alice, name=f"Key {number}")
    with django_assert_max_num_queries(4):
        browser.get("/account/keys")


@pytest.mark.parametrize("path", ["/nothing", "/account/nothing", "/console/nothing", "/account/keys/1/revoke"])
def test_what_is_not_there_is_said_on_a_page(path: str, db: None) -> None:
    response = Client().get(path)
    assert response.status_code == 404
    assert "Page not found" in response.content.decode()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/account/keys/", "/account/keys"),
        ("/console/desk", "/console/desk/"),
        ("/account/orders/?q=a", "/account/orders?q=a"),
    ],
)
def test_a_slash_too_many_or_too_few_leads_to_the_page(typed: str, meant: str, browser: Client) -> None:
    assert browser.get(typed).url == meant
    assert browser.post(typed).status_code == 404


@pytest.mark.parametrize(
    "path", ["/%2Fe.example", "/%2Fe.example/", "/api/v1/orders/", "/api/docs/", "/console/nothing/"]
)
def test_other_addresses_lead_nowhere(path: str, browser: Client) -> None:
    assert browser.get(path).status_code in (401, 404)


@pytest.mark.parametrize(
    "path", ["/account/logout", "/account/mode", "/account/sessions/end", f"/account/webhooks/{UUID(int=7)}/ping"]
)
def test_an_address_of_a_button_says_so_to_who_opens_it(path: str, browser: Client) -> None:
    response = browser.get(path)
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    assert "no-store" in response.headers["Cache-Control"]
    assert "This address only takes what a button sends." in response.content.decode()


def test_a_crash_is_a_page_without_detail(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: ApiKey) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(ApiKey, "revoke", crash)
    row, _ = ApiKey.issue(Account.objects.get(), name="Shop")
    browser.raise_request_exception = False
    response = browser.post(f"/account/keys/{row.id}/revoke")
    assert response.status_code == 500
    assert "Something went wrong here" in response.content.decode()
    assert "check whether it was saved" in response.content.decode()
    assert "secret detail" not in response.content.decode()


# --- Languages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["ar", "ar-DZ", "ar-EG,fr;q=0.5"])
def test_arabic_pages_run_from_the_right(asked: str, browser: Client) -> None:
    text = browser.get("/account/keys", headers={"Accept-Language": asked}).content.decode()
    assert '<html lang="ar-dz" dir="rtl">' in text


def test_the_language_is_chosen_in_the_header_and_kept(browser: Client) -> None:
    for client, page in ((browser, "/account/orders?q=amine&status=confirmed"), (Client(), "/account/login?next=/x")):
        text = client.get(page).content.decode()
        assert f'<input type="hidden" name="next" value="{escape(page)}">' in text
        for code, direction in (("fr", "ltr"), ("ar-dz", "rtl"), ("en", "ltr")):
            assert f'name="language" value="{code}"' in text
            assert client.post("/i18n/setlang/", {"language": code, "next": page}).url == page
            assert f'<html lang="{code}" dir="{direction}">' in client.get(page).content.decode()
        cookie = client.cookies["django_language"]
        assert (cookie["httponly"], cookie["samesite"], cookie["max-age"]) == (True, "Lax", 365 * 24 * 60 * 60)


def test_the_language_leads_nowhere_else_and_needs_the_token(db: None) -> None:
    assert Client().post("/i18n/setlang/", {"language": "fr", "next": "https://evil.example/"}).url == "/"
    assert Client(enforce_csrf_checks=True).post("/i18n/setlang/", {"language": "fr"}).status_code == 403

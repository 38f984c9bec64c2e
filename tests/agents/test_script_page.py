"""The account's page of what agents say: what is saved there is what they read, and a preview shows how it reads."""

import pytest
from django.test import Client

from agents.models import CallingRules
from codservice.accounts.models import Account, SecurityEntry
from tests import factories
from tests.harness.client import browser_of

PAGE = "/account/script"
FRENCH = "Bonjour {nom}, ici {boutique} : {produit} pour {wilaya}, {somme}."
ARABIC = "السلام عليكم {الاسم}، {المنتج} بـ {المبلغ} إلى {الولاية}"


@pytest.fixture
def browser(alice: Account) -> Client:
    return browser_of(alice.holder)


def test_what_is_saved_is_what_agents_read(browser: Client, alice: Account) -> None:
    CallingRules.objects.create(account=alice, most_attempts=3)
    page = browser.get(PAGE).content.decode()
    assert "No script yet." in page
    assert "<dd>the amount to pay on delivery, with DA</dd>" in page

    assert browser.post(PAGE, {"script_fr": f" {FRENCH}\r\nMerci", "script_ar": ARABIC}).url == PAGE

    rules = CallingRules.objects.get()
    assert (rules.script_fr, rules.script_ar, rules.most_attempts) == (f"{FRENCH}\nMerci", ARABIC, 3)
    assert SecurityEntry.objects.filter(action="call_script", account_id=alice.id, actor_id=alice.holder_id).exists()
    text = browser.get(PAGE).content.decode()
    read = "Bonjour Nadia Cherif, ici Alice&#x27;s shop : 2 × Robe kabyle pour Alger, 4\u202f500 DA.<br>Merci"
    assert f'<div lang="fr" dir="auto"><p>{read}</p></div>' in text
    assert "السلام عليكم نادية شريف، 2 × قفطان بـ 4\u202f500 دج إلى الجزائر" in text


def test_in_test_mode_too_it_is_what_agents_read(browser: Client, alice: Account, twin: Account) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour")
    browser.post("/account/mode", {"to": "test"})
    page = browser.get(PAGE).content.decode()
    assert "<p>Bonjour</p>" in page
    assert "what you save here holds for real calls" in page, "the banner above it says that nobody is called"
    browser.post(PAGE, {"script_fr": "Bonsoir", "mode": "test"})
    assert list(CallingRules.objects.values_list("account", "script_fr")) == [(alice.id, "Bonsoir")]


def test_how_it_reads_is_shown_and_not_saved(browser: Client) -> None:
    answer = browser.post(PAGE, {"script_fr": "Bonjour {nom}", "preview": "1"})
    assert (answer.status_code, CallingRules.objects.exists()) == (200, False)
    text = answer.content.decode()
    assert "<p>Bonjour Nadia Cherif</p>" in text
    assert "Bonjour {nom}</textarea>" in text


def test_a_misspelt_placeholder_is_told(browser: Client) -> None:
    form = {"script_fr": "Bonjour { Nom } : {produits}, {<b>x} {somme}", "script_ar": "{الإسم} {المنتج} {produits}"}
    for answer in (browser.post(PAGE, form | {"preview": "1"}), browser.post(PAGE, form, follow=True)):
        assert "none of the words that are filled in: {produits}, \u2068{الإسم}\u2069.<" in answer.content.decode()
    answer = browser.post(PAGE, {"script_fr": FRENCH, "script_ar": ARABIC}, follow=True)
    assert "none of the words" not in answer.content.decode()


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "{{ request.user }}", "{% debug %}", "{name.__class__}", "%(name)s", "{0}", "{"],
)
def test_nothing_else_in_it_means_anything(browser: Client, text: str) -> None:
    browser.post(PAGE, {"script_ar": text})
    page = browser.get(PAGE)
    assert page.context["read"] == [("ar", text)]
    assert "<script>alert" not in page.content.decode()


def test_one_that_is_too_long_is_refused(browser: Client) -> None:
    assert browser.post(PAGE, {"script_fr": "x" * 2001}).status_code == 422
    assert not CallingRules.objects.exists()


def test_merchants_write_their_own_and_readers_look(browser: Client, alice: Account, charlie: Account) -> None:
    CallingRules.objects.create(account=charlie, script_fr="Charlie")
    browser.post(PAGE, {"script_fr": "Alice"})
    assert CallingRules.objects.get(account=charlie).script_fr == "Charlie"
    reader = factories.UserFactory()
    alice.memberships.create(user=reader, role="reader")
    browser.force_login(reader)
    page = browser.get(PAGE).content.decode()
    assert "<p>Alice</p>" in page
    assert "Save the script" not in page
    assert browser.post(PAGE, {"script_fr": "x"}).status_code == 403


def test_what_a_colleague_has_written_meanwhile_is_not_replaced_without_a_word(browser: Client, alice: Account) -> None:
    rules = CallingRules.objects.create(account=alice, script_fr="Bonjour", script_ar="سلام")
    shown = {name: browser.get(PAGE).context["form"][name].value() for name in ("script_fr", "script_ar", "seen")}
    CallingRules.objects.update(script_fr="Bonjour, de Nadia", script_ar=ARABIC)

    refused = browser.post(PAGE, shown | {"script_fr": "Bonjour, de Yasmine"})

    assert refused.status_code == 422
    assert refused.content.decode().count("This has changed since you opened the page.") == 1
    rules.refresh_from_db()
    assert (rules.script_fr, rules.script_ar) == ("Bonjour, de Nadia", ARABIC)
    again = {name: refused.context["form"][name].value() for name in shown}
    assert again["script_fr"] == "Bonjour, de Yasmine"
    CallingRules.objects.update(script_fr="Bonjour, de Nadia et Samir")
    assert browser.post(PAGE, again).status_code == 422
    CallingRules.objects.update(script_fr="Bonjour, de Nadia")
    assert browser.post(PAGE, again).url == PAGE
    rules.refresh_from_db()
    assert (rules.script_fr, rules.script_ar) == ("Bonjour, de Yasmine", ARABIC)
    assert browser.post(PAGE, shown | {"script_fr": "Bonjour, de Yasmine"}).url == PAGE  # the same, once more

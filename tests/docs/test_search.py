"""Search finds what people mean, best first, in the scripts that they write."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import OperationalError, connection
from django.template.loader import render_to_string
from django.test import Client

from codservice import ratelimit
from codservice.docs import library
from codservice.docs.rendering import render
from codservice.docs.search import search

pytestmark = pytest.mark.django_db


def site(*texts: str) -> library.Site:
    """Return a site with one French page for each text."""
    made = {}
    for number, text in enumerate(texts):
        rendered = render(text, lambda address: address)
        page = library.Page(f"p{number}", "fr", rendered.sections[0].heading, rendered.html, rendered.sections)
        made["fr", page.name] = page
    return library.Site(made, dict[str, Path]())


def found(texts: library.Site, query: str) -> list[str]:
    return [result.url for result in search(texts, "fr", query)]


def results(client: Client, path: str, query: str) -> list[str]:
    listed = client.get(path, {"q": query}).content.decode().partition('<ol class="docs-results">')[2]
    return re.findall(r'<a href="([^"]*)"', listed.partition("</ol>")[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Délai", "delai"),
        ("COMMANDES", "commande"),
        ("cœur", "coeur"),
        ("الجزائر", "جزائر"),
        ("أدرار", "ادرار"),
        ("وَرْقَلَة", "ورقله"),
        ("الأغواط", "الاغواط"),
    ],
)
def test_spellings_of_one_word_are_one(one: str, other: str) -> None:
    for written, asked in ((one, other), (other, one)):
        (result,) = search(site(f"# Mots\n\nvoici {written} ici\n"), "fr", asked)
        assert [piece.text for piece in result.excerpt if piece.is_found] == [written]


def test_a_heading_comes_before_a_mention() -> None:
    texts = site("# Une page\n\nElle parle des délais.\n", "# Les délais\n\nIls sont courts.\n")

    assert found(texts, "delai") == ["/docs/fr/p1#les-délais", "/docs/fr/p0#une-page"]


def test_a_name_as_it_is_written_comes_before_its_words() -> None:
    texts = site("# Rate, limite\n\nune limite, un rate\n", "# Codes\n\nUn `rate_limite`, entre autres mots.\n")

    assert found(texts, "RATE_limite") == ["/docs/fr/p1#codes", "/docs/fr/p0#rate-limite"]
    assert found(texts, "rate limite") == ["/docs/fr/p0#rate-limite", "/docs/fr/p1#codes"]


def test_two_sections_of_a_page_come_before_other_pages() -> None:
    one = "# Clés\n" + "".join(f"\n## Clé {number}\n\nla clé\n" for number in range(4))
    texts = site(one, "# A\n\nune clé\n", "# B\n\nune clé\n")
    pages = [address.partition("#")[0][-2:] for address in found(texts, "cle")]

    assert pages == ["p0", "p0", "p1", "p2", "p0", "p0", "p0"]


def test_all_words_before_any() -> None:
    texts = site("# A\n\nla clé et la signature\n", "# B\n\nla clé\n", "# C\n\nla signature\n")

    assert found(texts, "signature clé") == ["/docs/fr/p0#a"]
    assert set(found(texts, "signature absent")) == {"/docs/fr/p0#a", "/docs/fr/p2#c"}


def test_the_beginning_of_a_word_is_enough() -> None:
    assert found(site("# A\n\nidempotence\n"), "idemp") == ["/docs/fr/p0#a"]


def test_at_most_twenty() -> None:
    assert len(found(site(*(f"# Page {number}\n\nla clé\n" for number in range(30))), "cle")) == 20


def test_other_forms_of_a_word_are_found_in_each_language() -> None:
    assert found(site("# A\n\nil faut annuler\n", "# B\n\nles annonces\n"), "annulez") == ["/docs/fr/p0#a"]


def test_no_language_is_indexed_anew_when_all_are_asked_in_turn(django_assert_max_num_queries: Any) -> None:
    texts = site("# A\n\nidempotence\n")
    for language in library.LANGUAGES:
        search(texts, language, "idempotence")
    for language in library.LANGUAGES:
        with django_assert_max_num_queries(3 if language == "en" else 2):  # English finds nothing, in three ways
            search(texts, language, "idempotence")


def test_what_was_found_is_marked_in_its_own_spelling() -> None:
    (result,) = search(site("# Mots\n\n" + "avant " * 40 + "les Délais sont courts " + "après " * 60), "fr", "delais")

    assert [piece.text for piece in result.excerpt if piece.is_found] == ["Délais"]
    text = "".join(piece.text for piece in result.excerpt)
    assert text.startswith("… ")
    assert text.endswith(" …")
    assert len(text) < 320


@pytest.mark.parametrize(
    "query",
    ["", " ", "§§§", "zzzzzz", "\0", "a" * 5000, "<script>alert(1)</script>", "%", "'\"", "a:* | !b", "ﷺ" * 200, "b\\"],
)
def test_whatever_is_asked_is_answered(query: str, client: Client) -> None:
    answer = client.get("/docs/search", {"q": query})

    assert answer.status_code == 200
    assert "<script>alert" not in answer.content.decode()


def test_the_page_finds_in_both_languages_and_scripts(client: Client) -> None:
    def first(path: str, query: str) -> str:
        return results(client, path, query)[0]

    assert first("/docs/search", "verify signature") == "/docs/webhooks#verify-the-signature"
    assert first("/docs/fr/search", "cle d'idempotence").startswith("/docs/fr/idempotency")
    assert first("/docs/fr/search", "الجزائر").startswith("/docs/fr/regions")
    assert first("/docs/ar/search", "طلبيات التعديل").startswith("/docs/ar/agents#")
    answer = client.get("/docs/ar/search", {"q": "webhook signature"}).content.decode()
    assert "/docs/fr/webhooks#" in answer
    assert "/docs/webhooks#" not in answer, "of a page that is there in French, too, it is not found twice"


@pytest.mark.parametrize("folder", ["", "fr/"])
def test_each_code_leads_to_the_page_of_errors(folder: str, client: Client) -> None:
    codes = re.findall(r"^\| \d+ \| `(\w+)`", (library.FOLDER / folder / "errors.md").read_text(encoding="utf-8"), re.M)
    assert len(codes) > 20
    for code in codes:
        best = results(client, f"/docs/{folder}search", f'"{code}"')[:3]  # as in the answer
        assert any(address.startswith(f"/docs/{folder}errors#") for address in best), (code, best)


def test_the_excerpt_is_about_the_name_that_was_asked_for() -> None:
    (result,) = search(
        site("# A\n\n" + "la limite est là, le rate aussi. " * 20 + "Puis rate_limited\n"), "fr", "rate_limited"
    )
    assert "".join(piece.text for piece in result.excerpt).endswith("Puis rate_limited")


def test_a_header_leads_to_its_guide(client: Client) -> None:
    assert "/docs/webhooks#verify-the-signature" in results(client, "/docs/search", "X-Service-Signature")[:3]


@pytest.mark.parametrize("query", ["fichier", "où & \"<b>'#?q=/%2F+é", "\ud800", "ﷺ" * 200])
def test_a_question_is_kept_in_another_language(query: str, client: Client) -> None:
    for there, others in (("", ("fr/", "ar/")), ("fr/", ("", "ar/")), ("ar/", ("fr/", ""))):
        searched = client.get(f"/docs/{there}search?{urlencode({'q': query}, errors='replace')}")
        asked = searched.context["query"]
        languages = searched.content.decode().partition('<nav class="languages"')[2].partition("</nav>")[0]
        links = [unescape(link) for link in re.findall(r'href="([^"]*)"', languages)]
        assert {link.partition("?")[0] for link in links} == {f"/docs/{other}search" for other in others}
        assert asked
        assert all(client.get(link).context["query"] == asked for link in links)


def test_what_is_shown_is_escaped() -> None:
    texts = site("# <b>Clé</b> & co\n\n`<script>alert(1)</script>` une clé\n")
    results = search(texts, "fr", "cle script")

    html = render_to_string("docs/search.html", {"query": "cle", "results": results})
    assert "&lt;<mark>script</mark>&gt;alert(1)&lt;/<mark>script</mark>&gt;" in html
    assert "&lt;b&gt;<mark>Clé</mark>&lt;/b&gt; &amp; co" in html


def test_the_groups_of_a_number_stay_in_their_order_in_arabic() -> None:
    (result,) = search(site("# Fichiers\n\nAu plus 200 000 lignes.\n"), "fr", "lignes")

    assert "200\u202f000 " in "".join(piece.text for piece in result.excerpt)


def test_who_asks_too_often_is_told_so_in_the_pages_language(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratelimit, "ADDRESS_LIMIT", 1)
    answers = [client.get("/docs/fr/search", {"q": "cle"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert int(answers[1].headers["Retry-After"]) >= 1
    assert "Trop de pages" in answers[1].content.decode()
    assert client.get("/docs/fr/orders").status_code == 200


def test_without_the_database_it_says_so_and_pages_are_read(client: Client) -> None:
    def gone(*args: object) -> None:
        raise OperationalError("connection refused")

    with connection.execute_wrapper(gone):
        answer = client.get("/docs/fr/search", {"q": "cle"})
        assert (answer.status_code, answer.headers["Content-Language"]) == (503, "fr")
        assert "La recherche ne peut pas répondre" in answer.content.decode()
        assert client.get("/docs/fr/orders").status_code == 200
        assert client.get("/docs/search").status_code == 200

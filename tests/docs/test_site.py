"""The pages of /docs/: whole, linked, safe, in two languages, and with nothing from outside."""

import re
from html import unescape
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from codservice.docs import library
from codservice.docs.rendering import render

pytestmark = pytest.mark.django_db

PAGES = sorted(library.site().pages.values(), key=lambda page: page.url)


def read(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return answer.content.decode()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.url)
def test_a_page_needs_nothing_inline_and_nothing_from_outside(page: library.Page, client: Client) -> None:
    html = read(client, page.url)

    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=\"/)", html)
    loaded = re.findall(r"<(?:img|script|iframe|source)[^>]*? src=\"([^\"]*)", html)
    loaded += re.findall(r"<link rel=\"(?:stylesheet|icon)\"[^>]*? href=\"([^\"]*)", html)
    assert loaded
    assert [address for address in loaded if not address.startswith("/")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.url)
def test_every_link_and_image_leads_somewhere(page: library.Page, client: Client) -> None:
    for address in re.findall(r"(?:href|src)=\"([^\"]*)", page.html):
        target = urljoin(page.url, unescape(address))
        if urlsplit(target).netloc:
            continue
        path, _, fragment = target.partition("#")
        answer = client.get(path)
        assert answer.status_code in (200, 302), f"{page.url}: {address}"
        if fragment:
            assert f'id="{unquote(fragment)}"' in answer.content.decode(), f"{page.url}: {address}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.url)
def test_a_page_is_well_made(page: library.Page, client: Client) -> None:
    html = read(client, page.url)

    assert html.count("<h1") == 1
    assert [section.level for section in page.sections].count(1) == 1
    assert "language-mermaid" not in html  # nobody draws it here
    assert f'<html lang="{page.language}"' in html
    assert all(image.strip() for image in re.findall(r"<img src=\"/docs/[^>]*? alt=\"([^\"]*)", html))
    assert re.search(r'aria-current="page"', html)


def test_the_way_between_the_languages(client: Client) -> None:
    assert '<a href="/docs/fr/orders" lang="fr" hreflang="fr">Français</a>' in read(client, "/docs/orders")
    assert '<a href="/docs/orders" lang="en" hreflang="en">English</a>' in read(client, "/docs/fr/orders")
    # A page that is not translated leads to the French beginning, which lists it in English.
    assert '<a href="/docs/fr/" lang="fr" hreflang="fr">Français</a>' in read(client, "/docs/architecture")
    assert '<a href="/docs/architecture" lang="en">' in read(client, "/docs/fr/")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("images/order.svg", "image/svg+xml"),
        ("images/console.png", "image/png"),
        ("examples/shop.py", "text/plain; charset=utf-8"),
        ("regions/wilayas.csv", "text/csv; charset=utf-8"),
        ("regions/communes.csv", "text/csv; charset=utf-8"),
        ("postman.json", "application/json"),
    ],
)
def test_files_beside_the_pages(name: str, kind: str, client: Client) -> None:
    answer = client.get(f"/docs/{name}")

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, kind)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert ("attachment" in answer.headers.get("Content-Disposition", "")) == name.endswith((".csv", ".json"))


@pytest.mark.parametrize(
    "path",
    [
        "../manage.py",
        "%2e%2e/manage.py",
        "..%2fmanage.py",
        "fr/../../codservice/settings.py",
        "....//manage.py",
        "/etc/passwd",
        "examples",
        "examples/",
        "webhooks.md",
        "orders/",
        "images/order.svg%00",
        "fr/images/order.svg",
        "README",
    ],
)
def test_nothing_else_has_an_address(path: str, client: Client) -> None:
    assert client.get(f"/docs/{path}").status_code == 404


def test_a_reader_who_has_it_gets_a_304_and_no_query_unless_it_is_searched(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client.get("/docs/search?q=webhook")  # the first one has the vectors made
    for url, queries in (("/docs/orders", 0), ("/docs/search?q=webhook", 2), ("/docs/regions/communes.csv", 0)):
        with django_assert_num_queries(2 * queries):
            first = client.get(url)
            again = client.get(url, headers={"If-None-Match": first.headers["ETag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_only_reading_is_possible(client: Client) -> None:
    assert client.head("/docs/orders").status_code == 200
    assert client.post("/docs/orders").status_code == 405


def test_it_is_found_as_people_type_it(client: Client) -> None:
    assert client.get("/docs").headers["Location"] == "/docs/"


def test_html_in_the_text_is_shown_and_columns_keep_their_side() -> None:
    html = render("# A\n\n<script>alert(1)</script>\n\n| a |\n|--:|\n| 1 |\n", lambda address: address).html

    assert "<script>" not in html
    assert "style=" not in html
    assert '<td class="to-right">' in html
    assert '<a href="javascript' not in render("# A\n\n[x](javascript:alert(1))", lambda address: address).html


def test_the_image_has_the_docs() -> None:
    ignored = (settings.BASE_DIR / ".dockerignore").read_text().splitlines()

    assert not {"docs", "docs/", "*.md", "**/*.md", "CHANGELOG.md"} & set(ignored)

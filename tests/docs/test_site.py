"""The pages of /docs/: complete, linked, safe, in three languages, and with nothing from outside."""

import re
import shutil
from fnmatch import fnmatch
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from codservice.docs import library, reference
from codservice.docs.rendering import render

pytestmark = pytest.mark.django_db


def read(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return answer.content.decode()


def test_every_page_is_well_made_and_needs_nothing_inline_and_nothing_from_outside(client: Client) -> None:
    pages = library.site().pages.values()
    assert len(pages) > 60
    for page in pages:
        html = read(client, page.url)

        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=\"/)", html), page.url
        loaded = re.findall(r"<(?:img|script|iframe|source)[^>]*? src=\"([^\"]*)", html)
        loaded += re.findall(r"<link rel=\"(?:stylesheet|icon)\"[^>]*? href=\"([^\"]*)", html)
        assert loaded, page.url
        assert [address for address in loaded if not address.startswith("/")] == [], page.url

        assert html.count("<h1") == 1, page.url
        assert [section.level for section in page.sections].count(1) == 1, page.url
        assert "language-mermaid" not in html, page.url  # nobody draws it here
        assert f'<html lang="{page.language}"' in html, page.url
        assert all(image.strip() for image in re.findall(r"<img src=\"/docs/[^>]*? alt=\"([^\"]*)", html)), page.url
        assert re.search(r'aria-current="page"', html), page.url


def test_every_link_and_image_leads_somewhere(client: Client) -> None:
    answer = cache(client.get)
    for page in library.site().pages.values():
        for address in re.findall(r"(?:href|src)=\"([^\"]*)", page.html):
            target = urljoin(page.url, unescape(address))
            if urlsplit(target).netloc:
                continue
            path, _, fragment = target.partition("#")
            assert answer(path).status_code in (200, 302), f"{page.url}: {address}"
            if fragment:
                assert f'id="{unquote(fragment)}"' in answer(path).content.decode(), f"{page.url}: {address}"


def test_no_line_of_a_french_page_begins_with_what_ends_a_word_of_the_line_before() -> None:
    pages = [page for page in library.site().pages.values() if page.language == "fr"]
    assert len(pages) > 20
    for page in pages:
        text = unescape(re.sub(r"(?s)<(pre|code)\b.*?</\1>|<[^>]+>", "", page.html))
        assert re.findall(r".{0,20}(?: [:;?!»]|« |\w'\w).{0,20}", f"{page.title}\n{text}") == [], page.url


@pytest.mark.parametrize("page", ["index.md", "fr/index.md"])
def test_the_list_of_pages_has_the_order_of_the_navigation(page: str) -> None:
    listed = re.findall(r"^\| \[[^]]+\]\(([\w-]+)\.md\)", (library.FOLDER / page).read_text(encoding="utf-8"), re.M)

    assert len(listed) > 10
    assert listed == [name for name in library.PARTS[0][1] if name in listed]


def test_the_groups_of_a_number_stay_together_and_in_their_order(client: Client) -> None:
    assert "10\u202f000" in read(client, "/docs/ar/without-a-developer")
    assert "10\u202f000" in read(client, "/docs/without-a-developer")


def test_the_way_between_the_languages(client: Client) -> None:
    assert '<a href="/docs/fr/orders" lang="fr" hreflang="fr">Français</a>' in read(client, "/docs/orders")
    assert '<a href="/docs/orders" lang="en" hreflang="en">English</a>' in read(client, "/docs/fr/orders")
    alternate = '<link rel="alternate" hreflang="fr" href="{}">'
    assert alternate.format("/docs/fr/orders") in read(client, "/docs/orders")
    assert alternate.format("/docs/fr/") not in read(client, "/docs/architecture"), "it is not the same page"
    # A page without a translation leads to the French start page, which lists it in English.
    assert '<a href="/docs/fr/" lang="fr" hreflang="fr">Français</a>' in read(client, "/docs/architecture")
    assert '<a href="/docs/architecture" lang="en">' in read(client, "/docs/fr/")


@pytest.mark.parametrize("beginnings", [["README.md", "docs/index.md"], ["README.md", "docs/fr/index.md"]])
def test_who_reads_the_repository_is_led_to_each_arabic_page(beginnings: list[str]) -> None:
    paths = [settings.BASE_DIR / beginning for beginning in beginnings]
    linked = {
        (path.parent / link).resolve()
        for path in paths
        for link in re.findall(r"\]\(([^)#:]+\.md)", path.read_text(encoding="utf-8"))
    }

    assert set((settings.BASE_DIR / "docs/ar").glob("*.md")) <= linked


def test_arabic_pages_run_from_right_to_left(client: Client) -> None:
    html = read(client, "/docs/ar/agents")
    assert '<html lang="ar-dz" dir="rtl">' in html
    assert '<a href="/docs/fr/agents" lang="fr" hreflang="fr">Français</a>' in html
    assert '<a href="/docs/ar/agents" lang="ar-dz" hreflang="ar-dz">العربية</a>' in read(client, "/docs/agents")
    # A page without an Arabic version is listed in French, else in English, and leads back to the Arabic start page.
    beginning = read(client, "/docs/ar/")
    assert '<a href="/docs/fr/orders" lang="fr">' in beginning
    assert '<a href="/docs/operators" lang="en">' in beginning
    assert '<a href="/docs/ar/" lang="ar-dz" hreflang="ar-dz">العربية</a>' in read(client, "/docs/orders")


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


def test_nothing_else_has_an_address(client: Client) -> None:
    for path in (
        "../manage.py",
        "%2e%2e/manage.py",
        "..%2fmanage.py",
        "fr/../../codservice/settings.py",
        "....//manage.py",
        "/etc/passwd",
        "examples",
        "examples/",
        "webhooks.md",
        "orders//",
        "nothing/",
        "postman.json/",
        "images/order.svg%00",
        "fr/images/order.svg",
        "README",
    ):
        assert client.get(f"/docs/{path}").status_code == 404, path


def test_what_operators_put_beside_the_examples_is_nobodys_to_read(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(library.FOLDER, tmp_path / "docs"))
    put = ["operations/kubernetes/secret.yaml", "operations/compose/.env", "notes.md", "fr/notes.md", "key.png"]
    for name in put:
        (folder / name).write_text("SECRET_KEY: hunter2")
    (folder / "images/order.svg").unlink()
    (folder / "images/order.svg").symlink_to("/etc/passwd")
    monkeypatch.setattr(library, "FOLDER", folder)

    assert client.get("/docs/operations/kubernetes/secret.example.yaml").status_code == 200
    for name in [*put, *(name.removesuffix(".md") for name in put), "images/order.svg"]:
        assert client.get(f"/docs/{name}").status_code == 404, name
    assert "hunter2" not in read(client, "/docs/search?q=SECRET_KEY")


def test_every_file_of_the_docs_is_named_and_what_is_named_is_there() -> None:
    site = library.site()
    there = {path.relative_to(library.FOLDER).as_posix() for path in library.FOLDER.rglob("*") if path.is_file()}
    written = [page for page in site.pages.values() if page.name not in reference.NAMES]
    pages = {f"{page.url.removeprefix('/docs/') or 'index'}.md".replace("/.md", "/index.md") for page in written}

    assert set(library.FILES) == {name for name in there if not name.endswith(".md")}
    assert pages == {name for name in there if name.endswith(".md")} | {f"{name}.md" for name in library.AT_THE_TOP}
    assert set(library.FILES) <= site.files.keys()


@pytest.mark.parametrize("file", [".gitignore", ".dockerignore"])
@pytest.mark.parametrize("name", ["docs/operations/kubernetes/secret.yaml", "secrets/key", "x/.env", "a.pem", "a.dump"])
def test_git_and_the_image_leave_out_what_operators_fill_in(file: str, name: str) -> None:
    patterns = [line.strip("/") for line in (settings.BASE_DIR / file).read_text().splitlines() if line[:1] != "#"]

    assert any(fnmatch(part, pattern.removeprefix("**/")) for pattern in patterns for part in name.split("/"))


def test_a_reader_who_has_it_gets_a_304_and_no_query_unless_it_is_searched(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client.get("/docs/search?q=webhook")  # the first one makes the vectors
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
    for page in ("errors", "fr/errors", "ar/agents", "api/orders", "changelog"):
        assert client.get(f"/docs/{page}/").headers["Location"] == f"/docs/{page}"


def test_who_hears_a_table_is_told_whose_row_and_which_column_a_cell_is_in() -> None:
    html = render("| a | b |\n|---|---|\n| 1 | 2 |\n|   | 3 |\n", lambda address: address).html
    assert '<th scope="col">a</th>' in html
    assert '<th scope="row">1</th>\n<td data-label="b">2</td>' in html
    assert '<td></td>\n<td data-label="b">3</td>' in html  # a row without a name


def test_html_in_the_text_is_shown_and_columns_keep_their_side() -> None:
    html = render("# A\n\n<script>alert(1)</script>\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n", lambda address: address).html

    assert "<script>" not in html
    assert "style=" not in html
    assert '<td class="to-right" data-label="b">2</td>' in html
    assert '<a href="javascript' not in render("# A\n\n[x](javascript:alert(1))", lambda address: address).html


def test_the_image_has_the_docs() -> None:
    ignored = (settings.BASE_DIR / ".dockerignore").read_text().splitlines()

    assert not {"docs", "docs/", "*.md", "**/*.md", "CHANGELOG.md"} & set(ignored)

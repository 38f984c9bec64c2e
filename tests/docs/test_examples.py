"""Every example of the docs, in both languages, is run or compared with what it stands for."""

import json
import os
import re
import subprocess
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import standardwebhooks
from django.conf import settings
from django.db import connection

from codservice.accounts.models import Account, ApiKey
from codservice.errors import Refused
from orders import editing
from orders.cancel_reasons import CancelReason
from orders.filters import OrderFilter
from orders.models import MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE, MAX_ATTRIBUTES
from orders.regions import gazetteer
from orders.serializers import OrderCancel, OrderImport, OrderItemImport
from tests import factories
from tests.docs.as_written import run_as_written
from tests.harness.description import closed, generated
from tests.harness.npm import program
from tests.webhooks.signed import BODIES, SECRET, headers_of
from webhooks import feed, resending, retries
from webhooks.events import WebhookOff

DOCS = settings.BASE_DIR / "docs"
EXAMPLES = DOCS / "examples"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "operations" not in path.parts)
# What merchants read, each in English and in French.
MERCHANTS = [
    *("index", "quick-start", "test-mode", "authentication", "orders", "products", "inventory", "webhooks", "events"),
    *("errors", "limits", "idempotency", "pagination", "regions", "programs", "clients", "changes", "team"),
]
# The French pages have the same examples.
MERCHANTS_PAGES = [DOCS / f"{name}.md" for name in MERCHANTS]


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


def fences(path: Path) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page: the words after the fence, and the block."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.S | re.M)


def blocks(path: Path, language: str) -> list[str]:
    return [block for info, block in fences(path) if info.split(" ")[0] == language]


WITH_BASH = [path for path in MERCHANTS_PAGES if blocks(path, "bash")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", WITH_BASH, ids=name_of)
def test_commands_work_word_for_word(page: Path, live_server: Any, alice: Account, names: Any) -> None:
    _, key = ApiKey.issue(alice, name="guide", is_test=page.stem in ("quick-start", "test-mode"))
    factories.ProductFactory(account=alice, sku="ROB-01")
    factories.ProductFactory(account=alice, sku="FOU-01", stock_quantity=9)

    printed = run_as_written("\n".join(blocks(page, "bash")), live_server, KEY=key, URL=live_server.url)

    assert [line for line in printed if line]


def test_each_page_for_merchants_has_the_same_examples_in_french() -> None:
    for page in MERCHANTS_PAGES:
        english, french = fences(page), fences(DOCS / "fr" / page.name)

        assert [info for info, _ in french] == [info for info, _ in english], page
        for (info, one), (_, other) in zip(english, french, strict=True):
            if info.split(" ")[0] in ("bash", "sh", "json", "http", "python", "php", "javascript", "go", "sql"):
                assert without_words(other) == without_words(one), page


def without_words(block: str) -> str:
    """The block without what it says to whoever runs it."""
    return re.sub(r'\|\| echo "[\w ,]+"', "", block)


def test_no_command_loses_its_guard_with_an_empty_variable() -> None:
    """`curl` sends no header that has no value, and the change would be made whatever has changed since."""
    guards = [guard for page in PAGES for guard in re.findall(r'"If-Match: (.+?)"', page.read_text(encoding="utf-8"))]

    assert guards
    assert all(guard.startswith("${") and guard.endswith(":?}") for guard in guards), guards


def test_json_is_what_the_description_says() -> None:
    schemas = generated()["components"]["schemas"]
    events = {
        kind: webhook["post"]["requestBody"]["content"]["application/json"]["schema"]
        for kind, webhook in generated()["webhooks"].items()
    }
    shown = [(info, block) for page in MERCHANTS_PAGES for info, block in fences(page) if info.split(" ")[0] == "json"]
    for info, block in shown:
        schema = {"components": generated()["components"], **(schemas | events)[info.removeprefix("json ")]}
        jsonschema_rs.validator_for(closed(schema), validate_formats=True).validate(json.loads(block))
    assert len(shown) >= 19


def test_no_example_is_only_looked_at() -> None:
    """A test in this folder, or one of the signatures, runs each kind of block."""
    shown_in_full = [path.read_text(encoding="utf-8") for path in EXAMPLES.iterdir()]
    run_here = {"bash", "json", "http", "sql", "sh", "text", "console", "yaml", "ini"}
    for page in PAGES:
        for info, block in fences(page):
            language = info.split(" ")[0]
            assert language in run_here or block in shown_in_full or block in PYTHON_LINES, f"{page} {info}: {block}"


# --- Lines of a page that need something around them ------------------------------------------------------------------

PYTHON_LINES = blocks(DOCS / "webhooks.md", "python")[1:]


def test_the_lines_for_the_library_verify() -> None:
    (lines,) = PYTHON_LINES
    around = {"signing_secret": SECRET, "raw_body": BODIES[0], "headers": headers_of(BODIES[0])}
    exec(lines, around)

    with pytest.raises(standardwebhooks.WebhookVerificationError):
        exec(lines, around | {"raw_body": BODIES[1]})


@pytest.mark.django_db
def test_the_statement_that_drops_repeats_does() -> None:
    (statement,) = blocks(DOCS / "webhooks.md", "sql")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE deliveries (id uuid PRIMARY KEY, body text) ON COMMIT DROP")
        counts = []
        for _ in range(2):
            delivery = {"delivery": "01954f6e-5b6c-4d7e-8f90-a1b2c3d4e5f6", "body": "{}"}
            cursor.execute(re.sub(r":(\w+)", r"%(\1)s", statement), delivery)
            counts.append(cursor.rowcount)
    assert counts == [1, 0]


def test_the_line_for_the_shell_computes_the_signature(tmp_path: Path) -> None:
    (line,) = blocks(DOCS / "webhooks.md", "sh")
    (tmp_path / "body.json").write_bytes(BODIES[0])
    environ = os.environ | {"SECRET": SECRET}

    printed = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )

    assert "sha256=" + printed.stdout.split()[0] == headers_of(BODIES[0])["X-Service-Signature"]


def test_the_variables_of_the_quick_start_are_those_that_its_commands_use() -> None:
    page = DOCS / "quick-start.md"
    (lines,) = blocks(page, "sh")
    script = lines + '\nprintf \'%s %s\' "$URL" "$KEY"'

    printed = subprocess.run([program("bash"), "-euc", script], capture_output=True, text=True, check=True).stdout

    assert printed == "https://orders.example.dz cod_test_…"
    used = set(re.findall(r"\$([A-Z]+)", "".join(blocks(page, "bash"))))
    assert used <= {"URL", "KEY", "ID", "WEBHOOK", "HOOK", "ORDER"}


@pytest.mark.parametrize("page", [DOCS / "errors.md", DOCS / "fr/errors.md"], ids=name_of)
def test_the_page_of_errors_names_the_fields_of_ours_that_can_be_in_the_way(page: Path) -> None:
    before_the_example, _, _ = page.read_text(encoding="utf-8").partition("```json ValidationFailed")

    refusals = (Refused, editing.TooManyEdits, resending.TooManyAttempts)
    fields = {refusal.in_the_way for refusal in refusals} | WebhookOff().errors.keys()
    assert fields <= set(re.findall(r"`(\w+)`", before_the_example))


@pytest.mark.parametrize("page", [DOCS / "orders.md", DOCS / "fr/orders.md"], ids=name_of)
def test_the_page_of_orders_says_how_long_each_text_may_be(page: Path) -> None:
    said = re.sub(r"(?<=\d)\s(?=\d)", "", page.read_text(encoding="utf-8"))  # the guides write 2 000
    fields = OrderImport().fields
    texts = {name: fields[name] for name in ("customer_name", "customer_address", "notes", "external_id", "source")}
    bounds = {f"| `{name}` |": [field.max_length] for name, field in texts.items()} | {
        "| `items.N.product_name`, ": [OrderItemImport().fields["product_name"].max_length],
        "| `items.N.attributes` |": [MAX_ATTRIBUTES, MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE],
        "| `q` |": [OrderFilter.base_filters["q"].extra["max_length"]],
        "`order_not_cancellable`. ": [OrderCancel().fields["reason"].max_length],
    }
    for place, numbers in bounds.items():
        line = re.findall(rf"^.*{re.escape(place)}.*$", said, re.M)[0]
        assert set(map(str, numbers)) <= set(re.findall(r"\d+", line)), line


@pytest.mark.parametrize("page", [DOCS / "orders.md", DOCS / "fr/orders.md"], ids=name_of)
def test_the_page_of_orders_says_which_texts_may_be_empty(page: Path) -> None:
    said = page.read_text(encoding="utf-8")
    (sentence,) = re.findall(r"(?:An empty text|Un texte vide)[^.]*\.", said)

    fields = OrderImport().fields
    assert re.findall(r"`(\w+)`", sentence) == [
        name for name, field in fields.items() if getattr(field, "allow_blank", False)
    ]


def test_a_reason_that_is_shown_is_one_that_is_counted() -> None:
    shown = re.findall(r'"reason": "([^"]+)"', "".join(block for page in WITH_BASH for block in blocks(page, "bash")))

    assert shown
    assert set(shown) <= set(CancelReason.values)


@pytest.mark.parametrize("answers", [[200, 429, 503, 200], [200, 401]], ids=["busy", "revoked"])
def test_the_loop_over_pages_reads_to_the_end_or_says_that_it_did_not(answers: list[int]) -> None:
    _, loop = blocks(DOCS / "pagination.md", "bash")
    pages = ['{"data":[1],"meta":{"per_page":100,"next_cursor":"a.b"}}', '{"data":[2],"meta":{"per_page":100,"next_cursor":null}}']  # fmt: skip  # noqa: E501
    asked, left = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path.rpartition("cursor=")[2])
            status = left.pop(0)
            content = pages[len(asked) > 1].encode() if status == 200 else b'{"error":"refused"}'
            self.send_response(status)
            self.send_header("Retry-After", "1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = os.environ | {"URL": f"http://127.0.0.1:{server.server_port}", "KEY": "k"}
        script = f'{loop}\necho "stopped at $NEXT"'
        done = subprocess.run([program("bash"), "-uc", script], env=environ, capture_output=True, text=True, check=True)
        server.shutdown()

    read_all = answers[-1] == 200
    assert done.stdout.splitlines() == [*pages[: 1 + read_all], "stopped at " + ("" if read_all else "a.b")]
    assert asked == ["", *["a.b"] * (len(answers) - 1)]
    assert read_all or "401" in done.stderr


@pytest.mark.parametrize("page", [DOCS / "regions.md", DOCS / "fr/regions.md"], ids=name_of)
def test_the_table_of_wilayas_is_the_one_that_we_use(page: Path) -> None:
    rows = re.findall(r"^\| `(\d\d)` \| ([^|]+) \| ([^|]+) \| (\d+) \|$", page.read_text(encoding="utf-8"), re.M)
    counts = dict.fromkeys(gazetteer.wilayas(), 0)
    for commune in gazetteer.communes().values():
        counts[commune.wilaya] += 1

    assert rows == [
        (wilaya.code, wilaya.name, wilaya.name_ar, str(counts[wilaya.code])) for wilaya in gazetteer.wilayas().values()
    ]


@pytest.mark.parametrize("page", [DOCS / "webhooks.md", DOCS / "fr/webhooks.md"], ids=name_of)
def test_deliveries_are_remembered_for_as_long_as_they_can_be_recovered(page: Path) -> None:
    (said,) = re.findall(r"\*\*(\d+) (?:days|jours)\*\*", page.read_text(encoding="utf-8"))

    assert timedelta(days=int(said)) >= feed.KEPT + sum(retries.SCHEDULE, timedelta())

"""What README and docs say is true: their commands run, their tables are complete."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands
from django.utils.translation import override

from agents.desk import claims
from codservice.accounts.models import SCOPES
from codservice.api import schema
from orders import regions
from orders.filters import OrderFilter
from orders.serializers import SENT
from tests.docs.as_written import OPERATORS, README, blocks, run_as_written
from tests.harness.processes import CHECKOUT

OUR_APPS = {"codservice", "orders", "inventory", "webhooks", "agents"}
OUR_COMMANDS = {name for name, app in get_commands().items() if str(app).split(".")[0] in OUR_APPS}
# These are read before there are settings, or beside them.
NEVER_IN_A_FILE = {
    *("HOST", "PORT", "WEB_WORKERS", "WEB_THREADS", "DATA_DIR", "PULSE_FILE"),
    *("PROMETHEUS_MULTIPROC_DIR", "RES_OPTIONS"),
}


@pytest.mark.django_db(transaction=True)
def test_the_readme_imports_an_order_word_for_word(live_server: Any) -> None:
    assert shutil.which("curl"), "curl is missing; install it, the docs are tried with it"
    (lines,) = [block for block in blocks(README) if "curl" in block]

    printed = "\n".join(run_as_written(lines, live_server))

    assert '"commune":"1621"' in printed
    assert '"meta":{"total":1,' in printed


@pytest.mark.parametrize("page", ["docs/errors.md", "docs/fr/errors.md"])
def test_every_error_has_its_row(page: str) -> None:
    said = set(re.findall(r"^\| (\d{3}) \| `(\w+)`(?: \|[^|\n]+){4} \|$", (CHECKOUT / page).read_text(), re.M))

    described = {(str(status), code) for status, (code, _) in schema.ERRORS.items()}
    of_few = {
        ("422", "order_not_cancellable"),
        ("422", "order_not_editable"),
        ("422", "order_already_decided"),
        ("422", "too_many_attempts"),
    }
    outside_of_operations = {("405", "method_not_allowed"), ("400", "bad_request"), ("403", "https_required")}
    outside_of_operations |= {("408", "request_timeout"), ("414", "uri_too_long"), ("431", "headers_too_large")}
    assert said == described | of_few | outside_of_operations


@pytest.mark.parametrize(("page", "language"), [("docs/authentication.md", "en"), ("docs/fr/authentication.md", "fr")])
def test_the_table_of_scopes_says_what_the_page_of_keys_says(page: str, language: str) -> None:
    said = dict(re.findall(r"^\| `(\w+:\w+)` \| (.+) \|$", (CHECKOUT / page).read_text(), re.M))

    with override(language):
        assert said == {scope: str(words) for scope, words in SCOPES.items()}


@pytest.mark.parametrize("page", ["docs/orders.md", "docs/fr/orders.md"])
def test_every_field_of_an_order_and_every_filter_of_their_list_has_its_row(page: str) -> None:
    firsts = re.findall(r"^\| (`[^|]+) \|", (CHECKOUT / page).read_text(), re.M)

    assert {*SENT, *OrderFilter.base_filters} <= {name for cell in firsts for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("agents.md", "({} at most at a time"),
        ("fr/agents.md", "({} au plus à la fois"),
        ("ar/agents.md", "({} في المرة"),
    ],
)
def test_agents_read_how_many_orders_of_a_customer_they_get_at_a_time(page: str, said: str) -> None:
    assert said.format(claims.MOST_ORDERS) in " ".join((CHECKOUT / "docs" / page).read_text().split())


def test_the_settings_table_has_every_setting_and_no_other() -> None:
    source = (CHECKOUT / "codservice/settings.py").read_text()
    read = set(re.findall(r"env\.\w+\(\s*\"([A-Z_]+)\"", source)) | NEVER_IN_A_FILE

    rows = re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \|", OPERATORS, re.M)
    said = {name for row in rows for name in re.findall(r"[A-Z_]+", row)}

    assert said == read


def test_what_cannot_be_given_as_a_file_is_named() -> None:
    exceptions = OPERATORS.partition("in the environment itself: ")[2].partition(". ")[0]

    assert set(re.findall(r"`([A-Z_]+)`", exceptions)) == NEVER_IN_A_FILE


def test_the_commands_table_has_every_command_and_no_other() -> None:
    table = OPERATORS.partition("## Commands")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)", table, re.M)) == OUR_COMMANDS


@pytest.mark.parametrize("command", sorted(OUR_COMMANDS))
def test_every_command_says_on_a_small_terminal_what_it_does_and_how(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.core.management import load_command_class

    monkeypatch.setenv("COLUMNS", "80")
    loaded = load_command_class(get_commands()[command], command)
    text, _, examples = loaded.create_parser("manage.py", command).format_help().partition("examples:\n")

    assert f"manage.py {command}" in examples
    assert examples.splitlines() == [f"  manage.py {line}" for line in loaded.examples.splitlines()]
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_make_has_the_targets_that_the_readme_names() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.M))

    assert set(re.findall(r"make ([a-z-]+)", README)) <= targets


def test_links_between_the_files_lead_somewhere() -> None:
    """As read in the repository; tests/docs/test_site.py follows the links of the served pages."""
    for page in [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_before_an_upgrade_the_changelogs_new_lines_are_shown(tmp_path: Path) -> None:
    step = OPERATORS.partition("\n## Upgrade\n")[2].partition("\n2. ")[0]
    commands = re.findall(r"`(git [^`]+)`", step)
    ours, installed = tmp_path / "ours", tmp_path / "installed"
    # A developer's own settings, and a hook's repository, are not for this.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def run(folder: Path, command: str) -> str:
        git = command.replace("git ", "git -c user.name=nobody -c user.email=nobody@example.dz ", 1)
        done = subprocess.run(shlex.split(git), cwd=folder, env=environ, capture_output=True, text=True, check=True)
        return done.stdout

    def release(*lines: str) -> None:
        for name in ("CHANGELOG.md", "code"):
            (ours / name).write_text("".join(f"{line}\n" for line in lines))
        run(ours, "git add .")
        run(ours, "git commit -m new")

    ours.mkdir()
    run(ours, "git init")
    release("- before")
    run(tmp_path, "git clone ours installed")
    release("- since", "- before")

    shown = "".join(run(installed, command) for command in commands)

    assert re.findall(r"^[+-](?![+-]{2} ).*", shown, re.M) == ["+- since"]
    assert shown.count("diff --git") == 1


def test_versions_are_spoken_of_once_there_are_some() -> None:
    changelog = (CHECKOUT / "CHANGELOG.md").read_text()
    are_numbered = re.findall(r"^## (.+)$", changelog, re.M) != ["Unreleased"]

    assert ("No version has a number yet" in changelog) is not are_numbered
    assert ("No version has a number yet" in (CHECKOUT / "docs/changes.md").read_text()) is not are_numbered
    assert ("Aucune version n'a encore de numéro" in (CHECKOUT / "docs/fr/changes.md").read_text()) is not are_numbered


@pytest.mark.parametrize("page", ["docs/regions.md", "docs/fr/regions.md"])
def test_what_the_page_of_regions_says_that_we_understand_is_understood_so(page: str) -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^\W\d_][^|:]*?)(?: ?:[^|]*)? \|", (CHECKOUT / page).read_text(), re.M)
    places = [(text, name) for cell, name in rows if name[0].isupper() for text in re.findall(r"`([^`]+)`", cell)]

    assert {name for _, name in places} >= {"Alger", "Blida", "Aïn Defla", "Barika"}
    assert [(text, name) for text, name in places if regions.find_wilaya(text).name != name] == []


def test_a_page_links_to_as_many_headings_in_each_language() -> None:
    def count(page: Path) -> int:
        return len(re.findall(r"\]\([^)\s]*#[^)]+\)", page.read_text()))

    translated = [page for language in ("fr", "ar") for page in (CHECKOUT / "docs" / language).glob("*.md")]
    pairs = [(page, page.parents[1] / page.name) for page in translated]
    assert [page for page, english in pairs if count(page) != count(english)] == []

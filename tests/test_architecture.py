"""Who may import whom, and that one word names one module (docs/architecture.md, "The rooms")."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.processes import CHECKOUT
from tests.harness.source import ROOMS, files_of

# Likewise within the ground: each imports only itself and what comes after it.
GROUND = (
    ("operations",),
    ("onebox",),
    ("run",),
    ("urls", "middleware", "settings"),  # these put the rest together
    ("uploads",),
    ("docs",),
    ("api", "files"),
    ("accounts",),
    ("concurrent_edits",),
    (
        "form_fields",
        "django_words",
        "commands",
        "ratelimit",
        "health",
        "restored",
        "retention",
        "long_lists",
        "searches",
        "wording",
        "celery",
        "wsgi",
    ),
    ("i18n_tags",),
    ("mails",),
    ("bidi", "metrics", "observability", "postgresql"),
    ("logs", "secret_file"),
    ("data_folder", "wire"),
    ("errors", "values", "days", "charts", "stops"),
)
# Names given by Django, DRF and Celery, and those that each room has for its part of one thing.
SHARED_NAMES = {
    *("__init__", "__main__", "admin", "apps", "filters", "forms", "models", "serializers", "tasks", "urls", "views"),
    *("account_pages", "bodies", "metrics", "openapi", "retention"),
}


def imported(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports anywhere: `package.module` or `package.module.name`."""
    package = path.relative_to(CHECKOUT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1], node.module or ""] if node.level else [node.module or ""]
            yield from (".".join([*filter(None, base), alias.name]) for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_itself_and_what_is_to_its_right(room: str) -> None:
    files = files_of(room)
    assert files
    allowed = set(ROOMS[ROOMS.index(room) :])
    extra = {
        str(path.relative_to(CHECKOUT)): rooms - allowed
        for path in files
        if (rooms := {name.partition(".")[0] for name in imported(path)} & {*ROOMS, "tests", "benchmarks"}) - allowed
    }
    assert extra == {}


def test_so_do_its_pages() -> None:
    """What they include, and whose tags they load. Pages of the console outside the rooms may use any."""
    tags = {path.stem: room for room in ROOMS for path in files_of(room) if path.parent.name == "templatetags"}
    left = defaultdict(set)
    for page in (CHECKOUT / "templates").rglob("*.html"):
        folder = page.relative_to(CHECKOUT / "templates").parts[0]
        if folder in ("admin", "operators"):
            continue
        to_the_left = ROOMS[: ROOMS.index(folder if folder in ROOMS else "codservice")]
        text = page.read_text(encoding="utf-8")
        loaded = [name for names in re.findall(r"{% load (.+?) %}", text) for name in names.split()]
        included = [path.partition("/")[0] for path in re.findall(r'{% (?:include|extends) "(.+?)"', text)]
        if found := {room for room in (*map(tags.get, loaded), *included) if room in to_the_left}:
            left[str(page.relative_to(CHECKOUT))] = found
    assert {"accounts", "orders"} <= tags.keys()
    assert dict(left) == {}


def test_inside_the_ground_imports_go_one_way_too() -> None:
    rank = {name: number for number, names in enumerate(GROUND) for name in names}
    found = {path.stem if path.is_file() else path.name for path in (CHECKOUT / "codservice").iterdir()}
    assert {name for name in found if (CHECKOUT / "codservice" / f"{name}.py").exists()} | {
        path.name for path in (CHECKOUT / "codservice").iterdir() if (path / "__init__.py").exists()
    } - {"__init__"} == {*rank, "__init__"}, "a new room of the ground has no place in GROUND yet"
    back = defaultdict(set)
    for path in files_of("codservice"):
        here = path.relative_to(CHECKOUT / "codservice").with_suffix("").parts[0]
        for name in imported(path):
            parts = name.split(".")
            there = parts[1] if parts[0] == "codservice" and len(parts) > 1 else here
            if there != here and there in rank and rank[there] <= rank[here]:
                back[str(path.relative_to(CHECKOUT))].add(name)
    assert dict(back) == {}


def test_rules_know_no_framework_of_the_api() -> None:
    """Console, commands and tasks alike call what moves orders, stock and deliveries."""
    rules = [
        *("orders/importing.py", "orders/editing.py", "orders/lifecycle.py", "orders/shipments.py"),
        *("inventory/stock.py", "inventory/catalog.py"),
        *("webhooks/events.py", "webhooks/delivery.py", "webhooks/resending.py"),
        *("codservice/values.py", "codservice/wire.py", "codservice/days.py"),
    ]
    framework = ("codservice.api", "rest_framework", "django.http", "django.forms")
    wrong = {
        rule: names
        for rule in rules
        if (names := [name for name in imported(CHECKOUT / rule) if name.startswith(framework)])
    }
    assert wrong == {}


STARTS = [
    "import django; django.setup()",
    "import manage, sys; sys.argv[1:] = ['help']; manage.main()",
    """import django; django.setup(); from codservice.commands import Command
class Nothing(Command):
    def handle(self, **options): pass
Nothing().run_from_argv(['manage.py', 'nothing'])""",
]


@pytest.mark.parametrize("start", STARTS)
def test_what_starts_loads_rules_and_no_pages(start: str) -> None:
    """People wait for commands, which need neither the API nor the console nor the manual."""
    pages = {"rest_framework.views", "drf_spectacular.generators", "agents.admin", "markdown_it", "phonenumbers"}
    lines = f"{start}\nimport sys\nsys.exit(' '.join({pages} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", lines], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_what_takes_files_in_loads_nothing_of_commands() -> None:
    """Every process of web and worker takes files in."""
    lines = """import django; django.setup()
import codservice.uploads.processing, sys
sys.exit(' '.join({'tqdm', 'codservice.commands'} & sys.modules.keys()))"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", lines], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_the_supervisor_that_stays_loads_no_framework() -> None:
    """It starts before everything else, and stays for as long as the service runs."""
    lines = """import codservice.onebox.__main__, sys
large = {'django', 'asyncio', 'ssl', 'email', 'importlib.metadata', 'multiprocessing'}
sys.exit(' '.join(large & sys.modules.keys()))"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", lines], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_one_word_names_one_module() -> None:
    homes = defaultdict(list)
    for room in ROOMS:
        for path in files_of(room):
            if "commands" not in path.parts and path.stem not in SHARED_NAMES:
                homes[path.stem].append(str(path.relative_to(CHECKOUT)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("page", ["architecture.md", "dependencies.md"])
def test_the_files_that_the_pages_for_developers_name_are_there(page: str) -> None:
    named = set(re.findall(r"[\w./]*\w\.py\b", (CHECKOUT / "docs" / page).read_text(encoding="utf-8")))
    there = [str(path.relative_to(CHECKOUT)) for path in CHECKOUT.rglob("*.py") if ".venv" not in path.parts]
    assert named
    assert {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)} == set()


def test_no_file_of_tests_is_needed_by_another() -> None:
    """What two of them need is in a module of its own."""
    names = {path.stem for path in (CHECKOUT / "tests").rglob("test_*.py")}
    needed = {
        str(path.relative_to(CHECKOUT)): both
        for path in files_of("tests")
        if (both := {part for name in imported(path) for part in name.split(".")} & names)
    }
    assert needed == {}

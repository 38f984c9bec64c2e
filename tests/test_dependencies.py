"""Production installs what the service imports when it runs, and nothing besides."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from tests.test_architecture import ROOMS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What nothing imports, and what it is for.
NOT_IMPORTED = {
    "drf-spectacular-sidecar": "an app of the settings: the files of Swagger UI",
}


def names(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\[<>=!~ ;]", requirement)[0]) for requirement in requirements}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


PRODUCTION = names(PROJECT["dependencies"])
REPORTING = names(PROJECT["optional-dependencies"]["observability"])


def imported() -> dict[str, set[str]]:
    """The distributions that may give it, by each module of others that run-time code imports."""
    nodes = [
        node
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    others = {module.partition(".")[0] for module in modules} - {*ROOMS} - sys.stdlib_module_names
    carriers = metadata.packages_distributions()
    return {module: {normal(name) for name in carriers.get(module, ())} for module in others}


def test_every_dependency_of_production_is_imported_or_has_a_reason() -> None:
    used = set().union(*imported().values())

    assert PRODUCTION - used == NOT_IMPORTED.keys()


def test_every_import_is_of_a_package_that_is_declared() -> None:
    assert {name for name, carriers in imported().items() if not carriers & (PRODUCTION | REPORTING)} == set()


def test_every_dependency_of_production_says_why_it_is_here() -> None:
    rows = re.findall(r"^\| (.+?) \|", (ROOT / "docs/dependencies.md").read_text(), re.M)

    assert PRODUCTION - names([name.strip() for row in rows for name in row.split(",")]) == set()

"""Production installs what the service imports when it runs, and nothing else."""

import ast
import re
import sys
import tomllib
from importlib import metadata

import pytest

from tests.harness.processes import CHECKOUT
from tests.harness.source import ROOMS

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\[<>=!~ ;]", requirement)[0]) for requirement in requirements}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


PRODUCTION = names(PROJECT["dependencies"])
REPORTING = names(PROJECT["optional-dependencies"]["observability"])


def imported() -> dict[str, set[str]]:
    """Return each third-party module that run-time code imports, with the distributions that may provide it."""
    nodes = [
        node
        for room in ROOMS
        for path in (CHECKOUT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    others = {module.partition(".")[0] for module in modules} - {*ROOMS} - sys.stdlib_module_names
    carriers = metadata.packages_distributions()
    return {module: {normal(name) for name in carriers.get(module, ())} for module in others}


def test_every_dependency_of_production_is_imported() -> None:
    used = set().union(*imported().values())

    assert PRODUCTION - used == set()


def test_every_import_is_of_a_package_that_is_declared() -> None:
    assert {name for name, carriers in imported().items() if not carriers & (PRODUCTION | REPORTING)} == set()


def test_every_dependency_of_production_says_why_it_is_here() -> None:
    rows = re.findall(r"^\| (.+?) \|", (CHECKOUT / "docs/dependencies.md").read_text(), re.M)

    assert PRODUCTION - names([name.strip() for row in rows for name in row.split(",")]) == set()


PINNED = ["requirements.txt", "tests/requirements.txt", "tests/attack/requirements.txt",
          "tests/docs/clients/requirements.txt", "codservice/observability/requirements.txt",
          "codservice/onebox/requirements.txt", "codservice/onebox/uv.txt"]  # fmt: skip


@pytest.mark.parametrize("file", PINNED)
def test_every_package_is_pinned_with_the_hashes_that_pip_holds_it_to(file: str) -> None:
    """When one package has a hash, pip takes none without; `make pins` writes them."""
    text = (CHECKOUT / file).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    with_hashes = re.compile(r"\S+==\S+( ;[^\\]+?)?( +--hash=sha256:[0-9a-f]{64})+")

    assert lines
    assert [line for line in lines if not with_hashes.fullmatch(line)] == []


def test_nothing_is_installed_past_the_hashes() -> None:
    text = (CHECKOUT / "Makefile").read_text() + (CHECKOUT / "Dockerfile").read_text()
    way = re.compile(r"^(?:PIP|UV)_INSTALL := (.*)$", re.M)
    installs = re.findall(
        r"(?:_INSTALL\)|\$\(call install,\$\(VENV\)[^,]*,|\bpip\b[^\n;|]* install) ?([^\n;|]*)", way.sub("", text)
    )

    assert len(way.findall(text)) == 2
    assert all("--require-hashes" in each for each in way.findall(text))
    assert len(installs) == 12
    # The definition of `install` gets its files as `$(2)`.
    assert [install for install in installs if "-r " not in install and "$(2)" not in install] == []
    in_image = re.findall(r"\$pip install ([^\n]*)", (CHECKOUT / "image/packages.sh").read_text())
    assert len(in_image) == 1
    assert "--require-hashes" in in_image[0]

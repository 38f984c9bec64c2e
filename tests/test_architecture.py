"""Who may import whom: agents → orders → inventory → webhooks → codservice, only to the right (docs, design)."""

import ast
from pathlib import Path

import pytest

ROOMS = ("agents", "orders", "inventory", "webhooks", "codservice")
ROOT = Path(__file__).resolve().parent.parent


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports from, wherever in the file it does."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0]
    return {name.partition(".")[0] for name in names} & {*ROOMS, "tests", "benchmarks"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_itself_and_what_is_to_its_right(room):
    files = list((ROOT / room).rglob("*.py"))
    assert files
    allowed = set(ROOMS[ROOMS.index(room) :])
    assert {str(path.relative_to(ROOT)): extra for path in files if (extra := imported_rooms(path) - allowed)} == {}

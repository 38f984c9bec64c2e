"""The table of promises names tests, targets and rules that exist."""

import ast
import re

from tests.chaos.checker import RULES
from tests.harness.processes import CHECKOUT

PAGE = (CHECKOUT / "docs/reliability.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| ([PA]\d+) \|(.*)$", PAGE, re.M))


def functions(file: str) -> set[str]:
    tree = ast.parse((CHECKOUT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_promise_and_attack_has_a_row_and_something_that_tries_it() -> None:
    assert list(ROWS) == [f"P{n}" for n in range(1, 35)] + [f"A{n}" for n in range(1, 26)]
    assert [name for name, row in ROWS.items() if "::" not in row and "`make " not in row] == []


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert named
    assert [(file, test) for file, test in named if test not in functions(file)] == []


def test_every_target_and_rule_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"make ([a-z-]+)", PAGE)) <= targets
    rules = {rule for row in ROWS.values() for rule in re.findall(r"`make chaos` \(([a-z, ]+)\)", row)}
    named = {rule.strip() for each in rules for rule in each.split(",")}
    assert named - {"after SIGTERM"} <= set(RULES)

"""Our code has no finding and the repository no secret, and the tools that look for them do see some."""

import ast
import re
from pathlib import Path

import pytest

from tests.attack import __main__ as attack
from tests.attack import repository
from tests.harness.processes import CHECKOUT


def test_bandit_finds_nothing_that_is_not_explained() -> None:
    assert repository.bandit()[1] == []


def test_bandit_sees(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text('import subprocess\nsubprocess.run("ls " + input(), shell=True)  # noqa: S602\n')
    (found,) = repository.bandit([code])[1]
    assert "B602" in found, "a mark without a reason excuses nothing"


def test_no_secret_lies_in_the_repository() -> None:
    found = repository.suspects(repository.tracked())
    assert {value: places for value, places in found.items() if value not in repository.HARMLESS} == {}
    listed = f"{Path(repository.__file__).name}:"
    there = {value for value, places in found.items() if not all(place.startswith(listed) for place in places)}
    assert repository.HARMLESS.keys() - there == set(), "excused, and found nowhere"


def test_a_secret_is_seen(tmp_path: Path) -> None:
    settings = tmp_path / "settings.py"
    settings.write_text(f'PASSWORD = "{"hunter" + "2" * 9}"\nTOKEN = "{"ghp_" + "a1B2" * 9}"\n')
    line = tmp_path / "line.txt"
    line.write_text(f"before\n{'1' * 9}:{'aB-3_' * 7} \nafter\n")
    assert len(repository.secrets([settings])[1]) >= 2
    assert repository.secrets([line])[1] == ["line.txt:2 Telegram Bot Token"]


def test_a_judge_that_tries_nothing_has_not_judged() -> None:
    assert attack.tried("schemathesis", lambda: ("0 cases", []), None).found == ["tried nothing"]
    assert attack.tried("schemathesis", lambda: ("10 cases", []), None).found == []


_SECRET = re.compile(r"(secret|token|(hex)?digest|signature|password|api_key)$", re.IGNORECASE)


def compared_secrets(code: str) -> list[str]:
    """Return the comparisons by `==` or `!=` in which a side is named like a secret, with their lines."""
    return [
        f"{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Compare) and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        if any(_SECRET.search(named(side)) for side in [node.left, *node.comparators])
    ]


def named(side: ast.expr) -> str:
    """Return how a value is named: by the function that is called, by the key that is looked up."""
    while isinstance(side, ast.Call):
        side = side.func
    if isinstance(side, ast.Subscript):
        return str(side.slice.value) if isinstance(side.slice, ast.Constant) else named(side.value)
    return ast.unparse(side) if isinstance(side, ast.Name | ast.Attribute) else ""


def test_secrets_are_compared_in_constant_time() -> None:
    """Secrets are never compared with `==`, only with `hmac.compare_digest`, whose time tells nothing."""
    found = [
        f"{path.name}:{each}"
        for room in repository.OURS
        for path in ([CHECKOUT / room] if room.endswith(".py") else (CHECKOUT / room).rglob("*.py"))
        for each in compared_secrets(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("side", ["token", "self.secret", "mac.hexdigest()", "data['signature']", "sign(key).digest()"])
def test_a_secret_that_is_compared_is_seen(side: str) -> None:
    assert compared_secrets(f"given != {side}") == [f"1 given != {side}"]
    assert compared_secrets(f"compare_digest(given, {side})") == []

"""Finds out what kind each test is, rather than relying on marks by hand, so that `make check` forgets none.

A `browser` test uses Chromium. A `process` test starts a process: the test, one of its fixtures, or anything in `tests`
that these name in turn, names `subprocess`. Any other test that starts a process fails. Files with such tests, and
files that ask every address, run first: they take longest, and a worker should not begin one when the others are done.
"""

import subprocess
import sys
from collections.abc import Generator, Iterator
from functools import cache
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from codservice.onebox.process import spawn

KINDS = ("browser", "process", "hosts")
# The fixtures of those who ask every address.
WORLDS = {"world", "attack"}
# What starts processes, and the rooms in which it is looked for: the second is our own code that starts some.
STARTERS = (subprocess, subprocess.Popen, spawn)
ROOMS = ("tests.", "codservice.onebox.")


@pytest.hookimpl(wrapper=True)  # marks tests before `-m` selects them, and orders them after all other hooks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        elif any(map(_starts_processes, _functions(item))):
            item.add_marker("process")
    result = yield
    long = {item.path for item in items if _is_marked(item) or WORLDS & set(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: item.path not in long)
    return result


def _is_marked(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(kind) for kind in KINDS)


def _functions(item: pytest.Item) -> Iterator[Any]:
    """The functions of the test and its fixtures."""
    if isinstance(item, pytest.Function):
        yield item.function
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            yield from (definition.func for definition in definitions)


@cache
def _starts_processes(function: FunctionType) -> bool:
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        thing = waiting.pop()
        if any(thing is each for each in STARTERS):
            return True
        if id(thing) not in seen:
            seen.add(id(thing))
            waiting += _named_by(thing)
    return False


def _named_by(thing: Any) -> list[Any]:
    """What one of our functions or classes names: in its module, as a default, or in a module of ROOMS it names."""
    if not str(getattr(thing, "__module__", "")).startswith(ROOMS):
        return []
    if isinstance(thing, type):
        return [*thing.__bases__, *(getattr(each, "fget", each) for each in vars(thing).values())]
    if not isinstance(thing := unwrap(thing), FunctionType):
        return []
    names = set(_names_in(thing.__code__))
    found = [thing.__globals__[name] for name in names if name in thing.__globals__]
    found += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    modules = [each for each in found if isinstance(each, ModuleType) and each.__name__.startswith(ROOMS)]
    return found + [vars(module)[name] for module in modules for name in names if name in vars(module)]


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_in(each)


# --- No test without the mark starts a process ---------------------------------------------------------------------

_unmarked = ""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    global _unmarked
    _unmarked = "" if _is_marked(item) else item.nodeid
    try:
        return (yield)
    finally:
        _unmarked = ""


def _refuse(event: str, arguments: Any) -> None:
    if _unmarked and event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        pytest.fail(f"{_unmarked} starts a process: give it the mark `process`, as none was found that it names")


sys.addaudithook(_refuse)

"""Checks that the OpenAPI description and the service have not drifted apart, over a whole run of the tests.

`Recorder`, a middleware that tests/conftest.py puts before all of ours, records each operation and the status of its
answer in a test's process. When the whole suite has passed, the records of all workers are compared with the
description. The run fails if an answer that was seen is not described, or one that is described was never seen.
`--drift` compares after any run.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse

from tests.harness.description import generated

Seen = tuple[str, str, int]
"""A method, a path as the description writes it (`/api/v1/orders/{id}`), and a status."""

SEEN: set[Seen] = set()
# Statuses with which the service may answer a method that a path does not have: before it looks at the path, or 404 to
# a live key for a path of test mode.
_OF_NO_OPERATION = {401, 404, 405, 413, 429, 503}
_PREFLIGHT = "OPTIONS", 204  # a browser's question, which no operation is (https://fetch.spec.whatwg.org)


class Recorder:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if (path := _described_path(request.path_info)) and _is_readable(request):
            SEEN.add((str(request.method).replace("HEAD", "GET"), path, response.status_code))
        return response


def _is_readable(request: HttpRequest) -> bool:
    """Whether Django accepts the request. With an unknown `Host` or a thousand parameters there is no operation."""
    try:
        return bool(request.get_host()) and request.GET is not None
    except SuspiciousOperation:
        return False


def _described_path(path: str) -> str:
    """The path with names for its parameters. Empty if it leads nowhere in the API."""
    from django.urls import Resolver404, resolve

    if not path.startswith("/api/v1/"):
        return ""
    try:
        return "/" + resolve(path).route.replace("<id:", "{").replace(">", "}")
    except Resolver404:
        return ""


def drift(seen: Iterable[Seen], description: dict[str, Any]) -> list[str]:
    """A line for each answer that was only seen or only described, sorted."""
    described = {
        (method.upper(), path, int(status))
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
        for status in operation["responses"]
    }
    operations = {(method, path) for method, path, _ in described}
    asked = {each for each in seen if each[::2] != _PREFLIGHT}
    answered = {each for each in asked if each[:2] in operations or each[2] not in _OF_NO_OPERATION}
    undescribed = [
        f"{verb} {path} answered {code}, which is not described" for verb, path, code in answered - described
    ]
    unseen = [f"{verb} {path} is described with {code}, which no test saw" for verb, path, code in described - answered]
    return sorted(undescribed + unseen)


# --- The run: workers hand their records to the controller, which compares them ------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--drift", action="store_true", help="hold what was answered against the OpenAPI description")


def _is_whole(config: pytest.Config) -> bool:
    """Whether the run covers the whole suite."""
    option = config.option
    narrowed = ("keyword", "deselect", "ignore", "ignore_glob", "lf", "collectonly", "maxfail", "stepwise")
    suites = [str(config.rootpath / path) for path in config.getini("testpaths")]
    if option.markexpr not in ["", *config.getini("addopts")]:
        return False
    return not any(getattr(option, name, None) for name in narrowed) and (
        config.args_source == pytest.Config.ArgsSource.TESTPATHS
        or [str(config.invocation_params.dir / path) for path in config.args] == suites
    )


def pytest_testnodedown(node: Any, error: object) -> None:
    SEEN.update(map(tuple, getattr(node, "workeroutput", {}).get("seen_answers", ())))  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["seen_answers"] = sorted(SEEN)
    result = yield  # xdist's own hook waits for its workers
    is_asked_for = config.option.drift or (_is_whole(config) and exitstatus == pytest.ExitCode.OK)
    if is_asked_for and not hasattr(config, "workeroutput"):
        config.stash[_DRIFT] = drift(SEEN, generated())
        if config.stash[_DRIFT] and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


_DRIFT = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(_DRIFT, None)
    if lines is None:
        return
    if lines:
        terminalreporter.section("the OpenAPI description has drifted", red=True)
        terminalreporter.write_line("\n".join(lines))
    else:
        terminalreporter.write_line(f"The OpenAPI description and {len(SEEN)} kinds of answers agree.")

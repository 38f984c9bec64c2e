"""What every log line has and what none may have. Imported by the logging configuration, before any app.

Our code logs with Python's `logging`; `extra` may have FIELDS. Every line, also of Django and Celery, becomes one JSON
object (in development, a readable line). Code that logs leaves out keys, secrets and customers' data; `redacted` is the
safety net.
"""

import json
import logging.config
import re
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import msgspec
from uuid_utils import uuid7

# Lines do not say where or in which thread they were written: finding that out would take as long as all the rest
# (Python's logging HOWTO, "Optimization").
logging._srcfile = None
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False

# Only these attributes of a record go into its line: libraries add whole requests and arguments.
FIELDS = {
    "method", "route", "status", "ms", "user_id", "delivery_id", "webhook_id", "event_kind", "attempt", "outcome",
    "request_id", "action", "by", "actor", "actor_id", "target", "target_id", "account_id", "address",
}  # fmt: skip

Line = dict[str, Any]
_HEAD = {"timestamp", "level", "logger", "event", "exception"}  # the rest of a line are fields

_REDACTED = "[redacted]"
# Ids pass as a whole, with or without hyphens, and so does the folder of the sockets in /tmp (`Layout.runtime`);
# otherwise their digits would sometimes look like a telephone number.
_FORBIDDEN = re.compile(
    r"(?P<id>\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b|codservice-\d+-[0-9a-f]{16}\b)"
    r"|cod_(?:live|test)_\w+"
    r"|whsec_[\w+/=-]+"
    # Links that are mailed to one person: Django logs the path of requests that it refuses or that fail.
    r"|(?<=/account/invitation/)[^\s'\"]+|(?<=/account/password/new/)[^\s'\"]+"
    # Algerian numbers, national and international, with the usual separators, in any script's digits.
    r"|(?<!\d)(?:(?:\+|[0٠۰]{2})?[2٢۲][1١۱][3٣۳](?:[\s.()/-]*[0٠۰])?|[0٠۰])(?:[\s.()/-]{0,2}\d){8,9}(?!\d)",
    re.I,
)
# What PostgreSQL adds to an error quotes rows and statements: "Failing row contains (…)".
_DATABASE_DETAIL = re.compile(
    r"^(?:DETAIL|CONTEXT|QUERY|LINE \d+):.*?(?=^HINT:|\n\n(?:The above|During)|\Z)", re.M | re.S
)
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # what terminals interpret

# The fields of the request that is being answered.
_request: ContextVar[dict[str, str]] = ContextVar("request", default={})  # noqa: B039  (never written to)


def sane_request_id(sent: str) -> str:
    """Return the request id that a client sent if it is acceptable, else a new one.

    It contains nothing that would be redacted, so that the same id is answered, logged and stored.
    """
    return sent if _SANE_ID.fullmatch(sent) and redacted(sent) == sent else str(uuid7())


def begin(request_id: str) -> None:
    """Count the lines of this thread (or asyncio task) as the request's from now on.

    `request_id` is from `sane_request_id`.
    """
    _request.set({"request_id": request_id})


def bind(**fields: str) -> None:
    """Add fields to the lines of the request: our own ids, never what somebody sent."""
    _request.set({**_request.get(), **fields})


def end() -> None:
    _request.set({})


def request_id() -> str:
    """Return the id of the request that is being answered; empty outside of requests."""
    return _request.get().get("request_id", "")


def configure(**kwargs: Any) -> None:
    """Log as the settings say. For Celery's `setup_logging`, since Celery would set levels and formats of its own."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)


def formatter(*, readable: bool) -> logging.Formatter:
    """Return a formatter that writes a JSON object per line or, for development, `readable` lines with tracebacks."""
    return _Formatter(_readable if readable else _json)


class ExpectedRefusals(logging.Filter):
    """Change what Django logs as an error with a traceback, but needs no change of the code.

    Suspicious requests, such as a form with too many fields, become a warning in one line. Of an answer with 503 Django
    says nothing: what gives it has said why, if that is not part of normal work, and the access line has the status.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security."):
            record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
            return logging.getLogger().isEnabledFor(record.levelno)
        return record.name != "django.request" or getattr(record, "status_code", None) != HTTPStatus.SERVICE_UNAVAILABLE


class _Formatter(logging.Formatter):
    """Does what structlog's ProcessorFormatter does with a chain of processors, which took twice as long."""

    def __init__(self, render: Callable[[Line], str]) -> None:
        super().__init__()
        self.render = render

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": redacted(record.getMessage()),
            **_request.get(),
        }
        for field in FIELDS & record.__dict__.keys():
            line[field] = record.__dict__[field]
        if "request_id" in record.__dict__:
            line["request_id"] = redacted(line["request_id"])
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        return self.render(line)


_any_json = json.JSONEncoder(default=str).encode


def _json(line: Line) -> str:
    """Return JSON in ASCII, so that terminals interpret nothing in it.

    msgspec is seven times as fast as `json` but writes UTF-8, so `json` writes the lines that are not ASCII.
    """
    try:
        return str(msgspec.json.encode(line), "ascii")
    except (TypeError, ValueError):
        return _any_json(line)


def redacted(text: str) -> str:
    if "\n" in text:
        text = _DATABASE_DETAIL.sub(_REDACTED, text)
    return _FORBIDDEN.sub(lambda found: found[0] if found["id"] else _REDACTED, text)


def _readable(line: Line) -> str:
    """Return a line in which control characters are escaped, as in JSON, but for the line breaks of a traceback."""
    fields = "".join(f" {name}={value!r}" for name, value in line.items() if name not in _HEAD)
    said = f"{line['timestamp']} [{line['level']:<8}] {line['event']} [{line['logger']}]{fields}"
    lines = [said, *line["exception"].split("\n")] if "exception" in line else [said]
    return "\n".join(CONTROLS.sub(_escaped, each) for each in lines)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()

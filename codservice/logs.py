"""What every log line carries and what none may. Imported by the logging configuration, before any app is.

Our code logs with Python's `logging`; `extra` may carry FIELDS. All lines, those of Django and Celery too, become one
JSON object each (in development, a readable line). Whoever logs leaves out keys, secrets and customers' data;
`redacted` is the net under that.
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

# A line says neither where nor in which thread it was written; to find that out would take as long as all the rest
# (Python's logging HOWTO, "Optimization").
logging._srcfile = None
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False

# Of a record's attributes only these become part of its line: libraries put whole requests and arguments there.
FIELDS = {
    "method", "route", "status", "ms", "user_id", "delivery_id", "event_kind", "attempt", "outcome", "request_id",
    "action", "by", "actor", "actor_id", "target", "target_id", "account_id", "address",
}  # fmt: skip

Line = dict[str, Any]
_HEAD = {"timestamp", "level", "logger", "event", "exception"}  # of a line; what else it has are fields

_REDACTED = "[redacted]"
# Ids pass whole, with hyphens and without; else their digits would now and then look like a telephone number.
_FORBIDDEN = re.compile(
    r"(?P<id>\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b)"
    r"|cod_(?:live|test)_\w+"
    r"|whsec_[\w+/=-]+"
    # Links that are mailed to one person: Django names the path of what it refuses and of what fails.
    r"|(?<=/account/invitation/)[^\s'\"]+|(?<=/account/password/new/)[^\s'\"]+"
    # Algerian numbers, national and international, with the usual separators, in any script's digits.
    r"|(?<!\d)(?:(?:\+|[0٠۰]{2})?[2٢۲][1١۱][3٣۳](?:[\s.()/-]*[0٠۰])?|[0٠۰])(?:[\s.()/-]{0,2}\d){8,9}(?!\d)",
    re.I,
)
# What PostgreSQL adds to an error tells of rows and statements: "Failing row contains (…)".
_DATABASE_DETAIL = re.compile(
    r"^(?:DETAIL|CONTEXT|QUERY|LINE \d+):.*?(?=^HINT:|\n\n(?:The above|During)|\Z)", re.M | re.S
)
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # what a terminal obeys

# What belongs to the request that is being answered.
_request: ContextVar[dict[str, str]] = ContextVar("request", default={})  # noqa: B039  (never written to)


def sane_request_id(sent: str) -> str:
    """The request id that a client sent when it is a sane one, else a new one.

    Nothing is in it that no line may have: what is answered is what is logged and kept.
    """
    return sent if _SANE_ID.fullmatch(sent) and redacted(sent) == sent else str(uuid7())


def begin(request_id: str) -> None:
    """From here on a line of this thread is one of this request, whose id is a sane one."""
    _request.set({"request_id": request_id})


def bind(**fields: str) -> None:
    """Add to what the lines of the request carry; our own ids, never what somebody sent."""
    _request.set({**_request.get(), **fields})


def end() -> None:
    _request.set({})


def request_id() -> str:
    """The id of the request that is being answered; empty outside of requests."""
    return _request.get().get("request_id", "")


def configure(**kwargs: Any) -> None:
    """Logs as the settings say. For Celery's `setup_logging`: it would set levels and formats of its own."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)


def formatter(*, readable: bool) -> logging.Formatter:
    """One JSON object per line; or `readable`, for development, where a traceback takes the lines that it needs."""
    return _Formatter(_readable if readable else _json)


class ExpectedRefusals(logging.Filter):
    """One line each for what Django logs as an error with its traceback, and nobody has to mend in the code: requests
    that are suspicious, such as a form of too many fields, are a warning; pages that cannot be shown while the database
    is away are many, and `api.error_answers` says why."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security."):
            record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
            return logging.getLogger().isEnabledFor(record.levelno)
        if record.name == "django.request" and getattr(record, "status_code", None) == HTTPStatus.SERVICE_UNAVAILABLE:
            record.exc_info = None
        return True


class _Formatter(logging.Formatter):
    """By hand what structlog's ProcessorFormatter does with a chain of processors, which took twice as long."""

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
    """In ASCII, so that nothing is in it which a terminal obeys. msgspec's is seven times as fast, but writes UTF-8."""
    try:
        return str(msgspec.json.encode(line), "ascii")
    except (TypeError, ValueError):
        return _any_json(line)


def redacted(text: str) -> str:
    if "\n" in text:
        text = _DATABASE_DETAIL.sub(_REDACTED, text)
    return _FORBIDDEN.sub(lambda found: found[0] if found["id"] else _REDACTED, text)


def _readable(line: Line) -> str:
    """Nothing in it that a terminal obeys, as JSON does it for the other form, but the ends of a traceback's lines."""
    fields = "".join(f" {name}={value!r}" for name, value in line.items() if name not in _HEAD)
    said = f"{line['timestamp']} [{line['level']:<8}] {line['event']} [{line['logger']}]{fields}"
    lines = [said, *line["exception"].split("\n")] if "exception" in line else [said]
    return "\n".join(CONTROLS.sub(_escaped, each) for each in lines)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()

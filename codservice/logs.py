"""What every log line carries and what none may. Imported by the logging configuration, before any app is.

Our code logs with Python's `logging`; `extra` may carry FIELDS. All lines, those of Django and Celery too, become one
JSON object each (in development, a readable line). Whoever logs leaves out keys, secrets and customers' data; `redact`
is the net under that.
"""

import logging.config
import re
import sys
from collections.abc import MutableMapping
from typing import Any

from structlog import contextvars, dev, processors, stdlib

# Of a record's attributes only these become part of its line: libraries put whole requests and arguments there.
FIELDS = (
    "method", "route", "status", "ms", "user_id",
    "delivery_id", "webhook_id", "event_kind", "attempt", "outcome", "request_id",
)  # fmt: skip

Line = MutableMapping[str, Any]

_REDACTED = "[redacted]"
# Ids of ours pass whole; without that their digits would now and then look like a telephone number.
_FORBIDDEN = re.compile(
    r"(?P<id>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
    r"|cod_live_\w+"
    r"|whsec_[\w+/=-]+"
    # Algerian numbers, national and international, with the usual separators, in any script's digits.
    r"|(?<!\d)(?:(?:\+|[0٠۰]{2})?[2٢۲][1١۱][3٣۳](?:[\s.()/-]*[0٠۰])?|[0٠۰])(?:[\s.()/-]{0,2}\d){8,9}(?!\d)",
    re.I,
)
# What PostgreSQL adds to an error tells of rows and statements: "Failing row contains (…)".
_DATABASE_DETAIL = re.compile(
    r"^(?:DETAIL|CONTEXT|QUERY|LINE \d+):.*?(?=^HINT:|\n\n(?:The above|During)|\Z)", re.M | re.S
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

bind = contextvars.bind_contextvars
forget = contextvars.clear_contextvars


def request_id() -> str:
    """The id of the request that is being answered; empty outside of requests."""
    return contextvars.get_contextvars().get("request_id", "")


def configure(**kwargs: Any) -> None:
    """Logs as the settings say. For Celery's `setup_logging`: it would set levels and formats of its own."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)


def formatter(*, readable: bool) -> logging.Formatter:
    """One JSON object per line; or `readable`, for development, where a traceback takes the lines that it needs."""
    renderers: list[Any] = (
        [_escape, dev.ConsoleRenderer(colors=sys.stderr.isatty())] if readable else [processors.JSONRenderer()]
    )
    return stdlib.ProcessorFormatter(
        processors=[
            contextvars.merge_contextvars,
            stdlib.ExtraAdder(allow=FIELDS),
            stdlib.add_log_level,
            stdlib.add_logger_name,
            processors.format_exc_info,
            redact,
            processors.TimeStamper(fmt="iso", utc=True),
            stdlib.ProcessorFormatter.remove_processors_meta,
            *renderers,
        ]
    )


def redact(logger: Any, name: str, line: Line) -> Line:
    """Take keys, secrets, telephone numbers and rows out of all texts of a line (structlog's processor)."""
    for field, value in line.items():
        if type(value) is str:
            line[field] = redacted(value)
    return line


def redacted(text: str) -> str:
    if "\n" in text:
        text = _DATABASE_DETAIL.sub(_REDACTED, text)
    return _FORBIDDEN.sub(lambda found: found[0] if found["id"] else _REDACTED, text)


def _escape(logger: Any, name: str, line: Line) -> Line:
    """Nothing that a terminal obeys, as JSON does it for the other form."""
    for field, value in line.items():
        if type(value) is str:
            lines = value.split("\n") if field == "exception" else [value]
            line[field] = "\n".join(_CONTROLS.sub(_escaped, each) for each in lines)
    return line


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()

"""Runs commands: `manage.py` in a process of its own, with production's settings and nothing else of this environment,
or within the test."""

import json
import time
from collections.abc import Callable
from io import StringIO
from typing import Any

from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from .database import environment
from .python import Python, kept, run_python

PRODUCTION = {
    "SECRET_KEY": "".join(map(chr, range(48, 110))),
    "ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "ALLOWED_HOSTS": "shop.example",
    "DATABASE_URL": "postgresql://codservice@localhost/codservice",
    "REDIS_URL": "redis://localhost/0",
}


def manage(*args, env=None, unset=()):
    """Run `manage.py …` with production's settings and `env`, and without this process's environment."""
    environ = {name: value for name, value in (kept() | PRODUCTION | (env or {})).items() if name not in unset}
    return run_python("manage.py", *args, env=environ)


def kill_once(begun: Callable[[], Any], *arguments: str) -> None:
    """Run Python with these arguments on the test's database, and kill it as soon as `begun` is true."""
    process = Python(*arguments, env=environment())
    try:
        while not begun():
            assert process.poll() is None
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()


def output(command: str, *arguments: Any, **options: Any) -> str:
    """What the command writes to stdout."""
    out = StringIO()
    call_command(command, *arguments, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


def printed(command: str, *arguments: Any) -> tuple[dict[str, Any], int]:
    """What the command prints as JSON, and its exit status."""
    out, status = StringIO(), 0
    try:
        call_command(command, *arguments, "--json", stdout=out, stderr=StringIO())
    except CommandError as error:
        status = error.returncode
    return json.loads(out.getvalue()), status

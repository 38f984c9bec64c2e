"""Commands: `manage.py` as a process of its own, with production's settings and nothing else of this environment; and
within the test."""

import json
import os
import subprocess
import sys
from io import StringIO
from typing import Any

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.management import CommandError, call_command

PRODUCTION = {
    "SECRET_KEY": "".join(map(chr, range(48, 110))),
    "ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "ALLOWED_HOSTS": "shop.example",
    "DATABASE_URL": "postgresql://codservice@localhost/codservice",
    "REDIS_URL": "redis://localhost/0",
}


def manage(*args, env=None, unset=()):
    """`manage.py …` in an environment that holds nothing of ours but `env`."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    environ = {name: value for name, value in (kept | PRODUCTION | (env or {})).items() if name not in unset}
    command = [sys.executable, "manage.py", *args]
    return subprocess.run(command, env=environ, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)


def printed(command: str, *arguments: Any) -> tuple[dict[str, Any], int]:
    """What the command prints as JSON, and its exit status."""
    out, status = StringIO(), 0
    try:
        call_command(command, *arguments, "--json", stdout=out, stderr=StringIO())
    except CommandError as error:
        status = error.returncode
    return json.loads(out.getvalue()), status

"""Runs commands: `manage.py` in a process of its own, with production's settings and nothing else of this environment,
or within the test."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.management import CommandError, call_command

from .database import environment

PRODUCTION = {
    "SECRET_KEY": "".join(map(chr, range(48, 110))),
    "ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "ALLOWED_HOSTS": "shop.example",
    "DATABASE_URL": "postgresql://codservice@localhost/codservice",
    "REDIS_URL": "redis://localhost/0",
}


# Loads the libraries that every command needs, which is most of a start, and forks for each command. They do not look
# at the environment, and none of our code is loaded. Frozen objects need no collection at the end of each command.
STARTER = """
import gc, json, os, runpy, sys
import cryptography.fernet, django.core.mail, django.core.management, django.db.models, django.urls, django.utils.log
import environs, platformdirs, psycopg, redis

gc.freeze()
for line in sys.stdin:
    job = json.loads(line)
    if not (pid := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
for number, path in enumerate([os.devnull, job["out"], job["err"]]):
    os.dup2(os.open(path, os.O_RDWR), number)
os.environ.clear()
os.environ.update(job["environ"])
sys.argv = ["manage.py", *job["arguments"]]
runpy.run_path("manage.py", run_name="__main__")
"""


def manage(*args, env=None, unset=()):
    """Run `manage.py …` with production's settings and `env`, and without this process's environment."""
    environ = {name: value for name, value in (_kept() | PRODUCTION | (env or {})).items() if name not in unset}
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        for path in (out, err):
            path.touch()
        starter = _starter(settings.BASE_DIR)
        job = {"arguments": args, "environ": environ, "out": str(out), "err": str(err)}
        print(json.dumps(job), file=starter.stdin, flush=True)
        status = int(starter.stdout.readline())
        return subprocess.CompletedProcess(args, status, out.read_text(), err.read_text())


def _kept():
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}


@cache
def _starter(folder):
    """The process that forks for each command. It ends when this process, from which it reads, does."""
    command = [sys.executable, "-c", STARTER]
    return subprocess.Popen(command, env=_kept(), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def kill_once(begun: Callable[[], Any], *arguments: str) -> None:
    """Run Python with these arguments on the test's database, and kill it as soon as `begun` is true."""
    process = subprocess.Popen([sys.executable, *arguments], cwd=settings.BASE_DIR, env=environment())
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

"""Forks for each Python that tests start: `python -m tests.harness.starter FD`, where FD is a socket to them.

It has the libraries loaded that our processes need, which is most of a start. They look neither at the environment nor
at Django's settings when they are imported (prometheus_client does, and is left out), and none of our code is loaded.
"""

import gc
import json
import os
import runpy
import socket
import sys
from importlib import import_module

LIBRARIES = (
    *("ada_url", "asyncio", "cryptography.fernet", "environs", "markdown_it", "mdit_py_plugins.anchors", "msgspec"),
    *("phonenumbers", "platformdirs", "psycopg", "pycurl", "python_calamine", "redis", "segno", "tqdm", "uuid_utils"),
    *(f"celery.app.{part}" for part in ("amqp", "control", "events", "log")),
    *(f"celery.{part}" for part in ("apps.beat", "apps.worker", "backends.base", "concurrency.thread")),
    *(f"celery.worker.{part}" for part in ("components", "strategy")),
    *("kombu.transport.redis", "django.contrib.admin", "django.contrib.postgres.search", "django.core.mail"),
    *("django.core.handlers.wsgi", "django.core.management", "django.db.backends.postgresql.base", "django.db.models"),
    *("django.forms", "django.template.loader", "django.urls", "django.utils.log", "django.views.generic"),
    *("django_filters.exceptions", "drf_spectacular", "requests", "rest_framework.compat", "whitenoise.middleware"),
)


def main(client: socket.socket) -> None:
    """Fork for each job that is received, until the other end is closed. A forked process returns from here."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(client, 1 << 20, 3)
        if not message:
            sys.exit()
        reader, writer = os.pipe()
        if not (between := os.fork()):
            if pid := os.fork():
                os.write(writer, str(pid).encode())
                os._exit(0)
            break
        os.waitpid(between, 0)  # its child now is one of the process that asked
        client.send(os.read(reader, 32))
        for descriptor in (reader, writer, *descriptors):
            os.close(descriptor)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors[-1], writer, client.detach()) + 1)
    become(**json.loads(message))


def become(arguments: list[str], environ: dict[str, str], folder: str) -> None:
    """Run what `python ARGUMENTS` would."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - until the end
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    first, *rest = arguments
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = [first, *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    for name in LIBRARIES:
        import_module(name)
    gc.freeze()  # they need no collection at the end of each
    main(socket.socket(fileno=int(sys.argv[1])))

"""The service with real servers and stand-ins for our own processes: `python -m tests.run.stub`."""

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from uuid import uuid4
from wsgiref.util import FileWrapper

from codservice.data_folder import Layout
from codservice.onebox.__main__ import main
from codservice.onebox.postgres import postgres
from codservice.onebox.process import Process
from codservice.onebox.valkey import valkey
from codservice.run import gateway, server
from codservice.run.web import Web, serve


def application(environ, start_response):
    """Answer with what came in, but for some paths.

    /big answers 8 MiB in pieces, /bigger 16 MiB. /broken… fails amid its answer. /file is this file, /slow takes half a
    second, and /held as long as the test wants. So does /account/login, which tells how many requests it is answering
    at once.
    """
    if environ["PATH_INFO"] == "/account/login":
        return at_door(environ, start_response)
    if environ["PATH_INFO"] == "/held":
        be_held(environ)
    if environ["PATH_INFO"] == "/slow":
        time.sleep(0.5)
    if environ["PATH_INFO"] in ("/big", "/bigger"):
        start_response("200 OK", [("Content-Type", "application/octet-stream")])
        return iter([b"x" * (1 << 16)] * (128 if environ["PATH_INFO"] == "/big" else 256))
    if environ["PATH_INFO"].startswith("/broken"):
        start_response("200 OK", [("Content-Type", "application/octet-stream")])
        return broken(32 if environ["PATH_INFO"] == "/broken" else 1)
    if environ["PATH_INFO"] == "/file":
        file = open(__file__, "rb")  # noqa: SIM115 - closed by the server after sending
        start_response("200 OK", [("Content-Length", str(os.fstat(file.fileno()).st_size))])
        return environ.get("wsgi.file_wrapper", FileWrapper)(file, 4096)
    names = ("CONTENT_LENGTH", "CONTENT_TYPE", "PATH_INFO", "REMOTE_ADDR", "HTTP_X_NAME", "HTTP_X_FORWARDED_FOR")
    got = {name: environ[name] for name in names if name in environ}
    got["read"] = len(environ["wsgi.input"].read())
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(got).encode()]


def __getattr__(name):
    """`late` is the application, which the second web process takes two seconds to load. LATE is a file to count in."""
    if name != "late":
        raise AttributeError(name)
    with open(os.environ["LATE"], "a") as loaded:
        loaded.write(".")
        if loaded.tell() == 3:  # after the process that forks the two, and the first of them
            time.sleep(2)
    return application


def be_held(environ):
    """Leave a file with the request's id in the folder HELD, and wait until the test makes the file `go` there."""
    folder = Path(os.environ["HELD"])
    (folder / str(uuid4())).write_text(environ.get("HTTP_X_REQUEST_ID", "none"))
    while not (folder / "go").exists():
        time.sleep(0.02)


_at_door: list[None] = []


def at_door(environ, start_response):
    _at_door.append(None)
    be_held(environ)
    got = {"at_once": len(_at_door)}
    _at_door.pop()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(got).encode()]


def broken(pieces):
    yield from [b"x" * (1 << 16)] * pieces
    # The exception holds this frame, which holds it: like Django's database errors, only garbage collection frees it.
    failure = RuntimeError("the database went away")
    raise failure


def stubbed(layout: Layout, web: Web) -> list[Process]:
    ours = [sys.executable, "-m", "tests.run.stub"]
    return [
        postgres(layout),
        valkey(layout),
        Process("web", [*ours, "web"], is_ready=web.answers),
        Process("worker", [*ours, "worker"]),
    ]


if __name__ == "__main__":
    if "web" in sys.argv:
        # However busy the machine is, nothing takes too long, except where a test is about that.
        gateway.BODY_SECONDS = patience = float(os.environ.get("GIVES_UP_AFTER", "600"))
        gateway.REQUEST_SECONDS = gateway.SLICE_SECONDS = 2 * patience
        gateway.MAX_HELD_BYTES, gateway.MAX_STREAMS, gateway.MOST_AT_DOOR = 8 << 20, 40, 5
        server.LAST_SECONDS = float(os.environ.get("LAST_SECONDS", server.LAST_SECONDS))
        if "TOLD_AT_FORK" in os.environ:
            os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
        if "STARTED_BY" in os.environ:
            multiprocessing.set_start_method(os.environ["STARTED_BY"])
        serve(Web.from_environ(), f"tests.run.stub:{os.environ.get('APPLICATION', 'application')}")
    elif "worker" in sys.argv:
        time.sleep(3600)
    else:
        sys.exit(main(stubbed))

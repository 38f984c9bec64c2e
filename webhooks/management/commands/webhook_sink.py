import hmac
import sys
import threading
import time
from argparse import ArgumentParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from django.core.management.base import CommandError
from django.utils import timezone

from codservice import commands
from webhooks import signing

MAX_BODY = 1024 * 1024


class Command(commands.Command):
    help = """Receive deliveries on this machine, print them and verify their signatures. For development.

Start the service with WEBHOOK_ALLOW_PRIVATE=true and register http://127.0.0.1:PORT/ as a webhook."""
    examples = "webhook_sink --secret whsec_…\nwebhook_sink --port 9100 --status 500\nwebhook_sink --count 10 --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        port, status, count = (commands.number(int, *ends) for ends in ((0, 65535), (100, 999), (0, 10**9)))
        seconds = commands.number(float, 0, 3600)
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=port, default=9000, help="port to listen on (9000); 0 for any free one")
        parser.add_argument(
            "--secret",
            action="append",
            default=[],
            help="signing secret to verify with; without one, nothing is verified",
        )
        parser.add_argument("--status", type=status, default=200, help="status to answer with (200)")
        parser.add_argument("--delay", type=seconds, default=0.0, help="seconds to wait before the answer")
        parser.add_argument("--count", type=count, default=0, help="stop after this many deliveries (0: never)")
        parser.add_argument("--json", action="store_true", help="print one JSON object per delivery")

    def handle(self, *, host: str, port: int, **options: Any) -> None:
        try:
            server = _Server((host, port), _handler(self, options))
        except (OSError, TypeError) as error:  # TypeError: the host cannot be a name
            raise CommandError(f"Cannot listen on {host}:{port}: {getattr(error, 'strerror', error)}.") from None
        self.say(f"Listening on http://{host}:{server.server_port}/ until Ctrl-C.")
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            pass
        finally:
            server.server_close()
        if server.failure:
            raise server.failure

    def show(self, received: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.print_json(msgspec.to_builtins(received))
        else:
            verdict = {True: "signature good", False: "SIGNATURE WRONG", None: "signature not checked"}[
                received["verified"]
            ]
            said = f"{received['event']} {received['delivery']} attempt {received['attempt']}"
            self.stdout.write(f"{received['at']:%H:%M:%S} {commands.printable(said)}, {verdict}")
            self.stdout.write(f"  {commands.printable(received['body'])}")
        self.stdout.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    failure: Exception | None = None  # why nothing can be shown any more

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing of a sender that has gone, as ours does after 3 seconds without an answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(command: Command, options: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    lock, left = threading.Lock(), [options["count"] or -1]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30
        server: _Server

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > MAX_BODY:
                self.send_error(413)
                return
            received = self.received(self.rfile.read(int(length)))
            time.sleep(options["delay"])
            status = options["status"]
            with lock:
                try:
                    command.show(received, as_json=options["json"])
                except (BrokenPipeError, CommandError) as error:
                    status, self.server.failure = 500, error
                left[0] -= 1
                is_last = left[0] == 0 or self.server.failure is not None
            try:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            finally:
                if is_last:
                    threading.Thread(target=self.server.shutdown, daemon=True).start()

        def received(self, body: bytes) -> dict[str, Any]:
            return {
                "at": timezone.now(),
                "event": self.headers.get("X-Service-Event", "?"),
                "delivery": self.headers.get("X-Service-Delivery", "?"),
                "attempt": self.headers.get("X-Service-Attempt", "?"),
                "verified": self.is_verified(body),
                "body": body.decode(errors="replace"),
            }

        def is_verified(self, body: bytes) -> bool | None:
            """Whether one of the secrets signed the body; None without secrets."""
            if not options["secret"]:
                return None
            names = ("X-Service-Signature", "X-Service-Signature-Previous")
            sent = [value for name in names if (value := self.headers.get(name))]
            right = [signing.signature(secret, body) for secret in options["secret"]]
            return any(hmac.compare_digest(one.encode(), other.encode()) for one in sent for other in right)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing: deliveries are printed already, and the rest is noise."""

    return Handler

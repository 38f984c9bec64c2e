"""A shop's receiver, in a container of its own, which prints the id of each delivery on a line."""

import http.server
import os
import ssl
from pathlib import Path


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        os.write(1, (self.headers["X-Service-Delivery"] + "\n").encode())  # one write, so that threads do not mix
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1000  # the usual 5 would lose connections when a worker sends all that has waited


folder = Path(__file__).parent
server = Server(("0.0.0.0", 8443), Receiver)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder / "receiver.pem")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()

"""A service with the faults that the judges look for: SQL built from a parameter, unescaped text, a published file, a
crash. The same service runs again for one client at a time. `python -m tests.attack.planted` prints both ports."""

import json
import sqlite3
import threading
from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ITEM = {
    "summary": "An item",
    "parameters": [
        {"name": "id", "in": "query", "required": True, "schema": {"type": "string"}, "example": "1"},
    ],
    "responses": {"200": {"description": "It."}},
}
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Planted", "version": "1"},
    "paths": {"/api/v1/items": {"get": ITEM}},
}


class Planted(BaseHTTPRequestHandler):
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE items (id INTEGER, name TEXT)")
    database.execute("INSERT INTO items VALUES (1, 'dress'), (2, 'scarf')")

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if address.path == "/api/schema":
            self.answer(200, json.dumps(DESCRIPTION), "application/json")
        elif address.path == "/api/v1/items":
            self.items(query.get("id", ""))
        elif address.path == "/account/":
            form = '<form><input name="name"></form><a href="/account/?name=x">x</a>'
            self.answer(200, f"<html><body>{form}<p>Hello {query.get('name', '')}</p></body></html>")
        elif address.path in ("/.git/HEAD", "/account/.git/HEAD", "/healthz"):
            self.answer(200, "ref: refs/heads/main", "text/plain")
        else:
            self.answer(404, escape(self.path))

    def items(self, given: str) -> None:
        try:
            rows = self.database.execute(f"SELECT name FROM items WHERE id = '{given}'").fetchall()
        except sqlite3.Error as error:
            self.answer(500, f"near: {error}")
        else:
            self.answer(200, json.dumps({"data": [name for (name,) in rows]}), "application/json")

    def answer(self, status: int, text: str, kind: str = "text/html") -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Log nothing: the judges report what they find."""


if __name__ == "__main__":
    for_many, for_one = ThreadingHTTPServer(("127.0.0.1", 0), Planted), HTTPServer(("127.0.0.1", 0), Planted)
    threading.Thread(target=for_one.serve_forever, daemon=True).start()
    print(for_many.server_port, for_one.server_port, flush=True)
    for_many.serve_forever()

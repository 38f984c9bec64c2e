"""A small shop's side of codservice. Python 3.9 or newer, nothing else.

python3 shop.py import orders.json     sends the orders of a file; needs URL and KEY
python3 shop.py receive                listens for webhooks; needs SECRET, takes PORT and STORE
"""

import base64
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ATTEMPTS = 6
REPLAY_WINDOW = 300  # seconds that a delivery's timestamp may differ from our clock
MAX_BODY = 1_048_576


class Refused(Exception):
    """The service will not take this order; to send it again would not help."""


class KeyRefused(Exception):
    """The service takes no order with this key."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """To follow one would take the key elsewhere, and the order nowhere: what was a POST becomes a GET."""

    def redirect_request(self, *args):
        return None


OPENER = urllib.request.build_opener(NoRedirects)


def import_order(order):
    """Send one order, again and again until it is known to be imported; gives its id."""
    sent = json.dumps(order).encode()
    request = urllib.request.Request(
        os.environ["URL"] + "/api/v1/orders",
        data=sent,
        headers={
            "Authorization": "Bearer " + os.environ["KEY"],
            "Content-Type": "application/json",
            # The same for every attempt: however often it arrives, the order is imported once. One that was refused
            # and corrected has another; by its external_id it too is imported once.
            "Idempotency-Key": "order-" + hashlib.sha256(sent).hexdigest(),
        },
    )
    for attempt in range(ATTEMPTS):
        wait = 2**attempt + random.random()
        try:
            with OPENER.open(request, timeout=10) as answer:
                return json.load(answer)["id"]
        except urllib.error.HTTPError as error:
            try:
                body = error.read().decode(errors="replace")
            except (OSError, http.client.HTTPException):  # it broke off; the status is known
                body = ""
            if error.code in (401, 403):
                raise KeyRefused(f"{error.code} {body}") from None
            if error.code not in (408, 409, 429) and error.code < 500:
                if there := already_there(body):
                    return there
                raise Refused(f"{error.code} {body}") from None
            after = error.headers.get("Retry-After") or ""
            if after.isdecimal():  # what stands before the service may write a date
                wait = int(after) or wait
            problem = body
        except (OSError, http.client.HTTPException, ValueError) as error:  # no answer, or half of one
            problem = error
        if attempt < ATTEMPTS - 1:
            print(f"{order['external_id']}: {problem}; again in {wait:.0f} s", file=sys.stderr)
            time.sleep(wait)
    raise OSError(f"{ATTEMPTS} attempts failed, the last with: {problem}")


def already_there(refusal):
    """The id of the order that has this external_id, if nothing else is wrong with the one that was refused."""
    found = re.search(r"Order (\S+) has this external_id", refusal)
    return found[1] if found and list(json.loads(refusal)["errors"]) == ["external_id"] else None


def import_file(path):
    try:
        with open(path, encoding="utf-8") as file:
            orders = json.load(file)
    except (OSError, ValueError) as problem:
        sys.exit(f"{path} cannot be read: {problem}")
    if not isinstance(orders, list):
        sys.exit(f"{path} must be a list of orders.")
    failed = 0
    for place, order in enumerate(orders, 1):
        if not isinstance(order, dict) or order.get("external_id") in (None, ""):  # it might be imported twice
            print(f"order {place} has no external_id; not sent", file=sys.stderr)
            failed += 1
            continue
        try:
            print(order["external_id"], import_order(order), flush=True)
        except KeyRefused as problem:
            sys.exit(f"The key is refused, no more orders are sent: {problem}")
        except (Refused, OSError) as problem:
            print(f"{order['external_id']}: {problem}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def is_ours(secret, headers, body):
    """Whether the service has signed this delivery with this secret, and within the last minutes."""
    sent_at = headers.get("webhook-timestamp", "")
    if not sent_at.isascii() or not sent_at.isdigit() or abs(time.time() - int(sent_at)) > REPLAY_WINDOW:
        return False
    signed = f"{headers.get('X-Service-Delivery', '')}.{sent_at}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    # While a secret is changed there are two signatures; ours must be one of them.
    signatures = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected.encode(), signature.encode()) for signature in signatures)


class Store:
    """The deliveries that were received, a line of JSON each. Knows them after a restart."""

    def __init__(self, path):
        self._lock = threading.Lock()
        self._path = path
        with open(path, "ab+") as file:
            file.seek(0)
            lines = file.readlines()
            if lines and not lines[-1].endswith(b"\n"):  # half a line was never acknowledged: it comes again
                file.truncate(file.tell() - len(lines.pop()))
        self._known = {json.loads(line)["delivery"] for line in lines}

    def add(self, delivery, body):
        """Keep a delivery; False when it is known."""
        line = json.dumps({"delivery": delivery, "body": json.loads(body)}).encode() + b"\n"
        with self._lock:
            if delivery in self._known:
                return False
            with open(self._path, "ab", buffering=0) as file:
                end = file.tell()
                if file.write(line) < len(line):
                    file.truncate(end)
                    raise OSError("The disk is full.")
                os.fsync(file.fileno())
            self._known.add(delivery)
            return True


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10
    store: Store

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 < length <= MAX_BODY:
            self.answer(413)
            return
        body = self.rfile.read(length)  # the raw bytes: these are signed
        if not is_ours(os.environ["SECRET"], self.headers, body):
            self.answer(401)
            return
        # An example that you asked for is signed too, but its order does not exist.
        is_new = not json.loads(body).get("example") and self.store.add(self.headers["X-Service-Delivery"], body)
        self.answer(200)  # known ones too, or they would come again
        if is_new:
            print(self.headers["X-Service-Event"], self.headers["X-Service-Delivery"], flush=True)
            # Here your shop wakes whoever works through STORE (it sends the parcel, or gives the stock free again) and
            # notes beside it what is done: what was stored when a program died does not come again.

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if status == 413:
            self.close_connection = True
        self.end_headers()

    def log_message(self, *args):
        pass


def receive():
    if not re.match(r"whsec_[A-Za-z0-9+/]{32}", os.environ.get("SECRET", "")):  # anybody can sign with an empty one
        sys.exit("Set SECRET to the signing_secret of your webhook.")
    Receiver.store = Store(os.environ.get("STORE", "deliveries.jsonl"))
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()


if __name__ == "__main__":
    if sys.argv[1:2] == ["import"] and len(sys.argv) == 3:
        sys.exit(import_file(sys.argv[2]))
    if sys.argv[1:] == ["receive"]:
        receive()
    sys.exit(__doc__)

"""Receivers in other languages, and libraries by others, accept every delivery that we sign, and nothing else."""

import base64
import hashlib
import hmac
import json
import os
import re
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import standardwebhooks

from codservice.accounts.models import Account, ApiKey
from codservice.wire import dump_json
from tests.docs.as_written import blocks, run_as_written
from tests.harness.npm import installed, program
from tests.harness.processes import CHECKOUT
from tests.webhooks.signed import BODIES, OLD_SECRET, SECRET, headers_of

GUIDE = (CHECKOUT / "docs/webhooks.md").read_text(encoding="utf-8")
EXAMPLES = CHECKOUT / "docs/examples"
JAVASCRIPT = Path(__file__).with_name("javascript")


def flipped(body: bytes) -> list[bytes]:
    """Return the body with a bit changed at its start, in its middle and at its end; made shorter; made longer."""
    changed = [bytearray(body) for _ in range(3)]
    for copy, place in zip(changed, (0, len(body) // 2, -1), strict=True):
        copy[place] ^= 1
    return [*map(bytes, changed), body[:-1], body + b"\n"]


# --- The examples of the guide ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built_go(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("go") / "verify"
    subprocess.run([program("go"), "build", "-o", target, EXAMPLES / "verify.go"], check=True, capture_output=True)
    return str(target)


@pytest.fixture(params=["python", "php", "node", "go", "openssl"])
def is_accepted(request: pytest.FixtureRequest) -> Callable[..., bool]:
    """Return whether a receiver in one language accepts a body with these headers."""
    commands = {
        "python": lambda: [sys.executable, str(EXAMPLES / "verify.py")],
        "php": lambda: [program("php"), str(EXAMPLES / "verify.php")],
        "node": lambda: [program("node"), str(EXAMPLES / "verify.mjs")],
        "go": lambda: [request.getfixturevalue("built_go")],
        "openssl": lambda: [program("openssl"), "dgst", "-sha256", "-hmac", SECRET, "-r"],
    }
    command = commands[request.param]()

    def ask(body: bytes, headers: dict[str, str], secret: str = SECRET) -> bool:
        names = {"SIGNATURE": "X-Service-Signature", "PREVIOUS": "X-Service-Signature-Previous"}
        sent = {name: headers[header] for name, header in names.items() if header in headers}
        done = subprocess.run(
            [secret if part == SECRET else part for part in command],
            input=body,
            env={"PATH": os.environ["PATH"], "SECRET": secret, **sent},
            capture_output=True,
            check=False,
        )
        if request.param == "openssl":
            return "sha256=" + done.stdout.decode().split()[0] in sent.values()
        assert done.returncode in (0, 1), done.stderr
        assert not done.stderr
        return done.returncode == 0

    return ask


def test_every_body_is_accepted(is_accepted: Callable[..., bool]) -> None:
    for body in BODIES:
        assert is_accepted(body, headers_of(body))


def test_no_other_body_is(is_accepted: Callable[..., bool]) -> None:
    for other in flipped(BODIES[0]):
        assert not is_accepted(other, headers_of(BODIES[0]))


def test_neither_is_another_secret_nor_no_signature(is_accepted: Callable[..., bool]) -> None:
    body = BODIES[0]
    good = headers_of(body)["X-Service-Signature"]
    wrong = [{}, {"X-Service-Signature": ""}, {"X-Service-Signature": good[:-1]}, headers_of(body, OLD_SECRET)]
    assert not any(is_accepted(body, headers) for headers in wrong)


def test_without_a_secret_nothing_is_accepted(built_go: str) -> None:
    """Anybody can sign with an empty secret."""
    body = BODIES[0]
    forged = "sha256=" + hmac.new(b"", body, hashlib.sha256).hexdigest()
    commands = [
        [sys.executable, str(EXAMPLES / "verify.py")],
        [program("php"), str(EXAMPLES / "verify.php")],
        [program("node"), str(EXAMPLES / "verify.mjs")],
        [built_go],
    ]
    for command in commands:
        for secret in ({}, {"SECRET": ""}):
            environ = {"PATH": os.environ["PATH"], "SIGNATURE": forged, **secret}
            done = subprocess.run(command, input=body, env=environ, capture_output=True, check=False)
            assert done.returncode != 0, (command, secret)


def test_the_annotations_of_verify_py_are_not_evaluated() -> None:
    """Python 3.9 has no `str | None`."""
    annotations = runpy.run_path(str(EXAMPLES / "verify.py"))["is_ours"].__annotations__

    assert annotations["signatures"] == "str | None"


@pytest.mark.parametrize(
    "command",
    [
        ["php", "-r", 'require "verify.php"; echo "on\\n";'],
        ["php", "-r", 'require "shop.php"; echo "on\\n";'],
        ["node", "--input-type=module", "--eval", 'await import("./verify.mjs"); console.log("on")'],
    ],
    ids=lambda command: f"{command[0]} {re.findall(r'shop|verify', command[-1])[0]}",
)
def test_a_program_that_takes_an_example_in_goes_on(command: list[str]) -> None:
    """A worker of PHP is a command line too."""
    done = subprocess.run(
        [program(command[0]), *command[1:]],
        cwd=EXAMPLES, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_both_secrets_are_accepted_while_they_overlap(is_accepted: Callable[..., bool]) -> None:
    headers = headers_of(BODIES[1], SECRET, OLD_SECRET)

    assert is_accepted(BODIES[1], headers)
    assert is_accepted(BODIES[1], headers, secret=OLD_SECRET)


def test_the_guide_shows_the_examples_as_they_are() -> None:
    for path in EXAMPLES.glob("verify.*"):
        assert f"\n{path.read_text(encoding='utf-8')}```" in GUIDE, path.name


def test_the_published_vector_is_what_we_send() -> None:
    (body,) = re.findall(r'^\{"event".*\}$', GUIDE, re.M)
    rows = dict(re.findall(r"^\| `([\w-]+)` \| `(\S+)` \|$", GUIDE, re.M))
    data = body.encode()
    assert f"{len(data)} bytes" in GUIDE

    sent = headers_of(
        data,
        rows.pop("signing_secret"),
        now=int(rows["webhook-timestamp"]) + 0.9,
        delivery_id=UUID(rows["X-Service-Delivery"]),
    )

    assert {name: sent[name] for name in rows} == rows
    shown = dict(re.findall(r"^([\w-]+): (.+)$", GUIDE.partition("```http")[2].partition("```")[0], re.M))
    assert set(sent) - {"Accept"} == set(shown)
    assert shown | {"User-Agent": ""} == {name: sent[name] for name in shown} | {"User-Agent": ""}


def test_the_signature_has_the_promised_form() -> None:
    assert re.fullmatch(r"sha256=[0-9a-f]{64}", headers_of(BODIES[0])["X-Service-Signature"])


# --- Published libraries ---------------------------------------------------------------------------------------------


def test_standard_webhooks_library_for_python_accepts_it() -> None:
    for body in BODIES:
        assert standardwebhooks.Webhook(SECRET).verify(body, headers_of(body)) == json.loads(body)
    both = headers_of(BODIES[0], SECRET, OLD_SECRET)
    assert standardwebhooks.Webhook(OLD_SECRET).verify(BODIES[0], both)


def test_standard_webhooks_library_for_python_refuses_all_else() -> None:
    receiver = standardwebhooks.Webhook(SECRET)
    good = headers_of(BODIES[0])
    wrong = [(other, good) for other in flipped(BODIES[0])]
    wrong += [
        (BODIES[0], good | {"webhook-id": str(uuid4())}),
        (BODIES[0], good | {"webhook-timestamp": str(int(good["webhook-timestamp"]) + 1)}),
        (BODIES[0], headers_of(BODIES[0], now=time.time() - 600)),
        (BODIES[0], headers_of(BODIES[0], OLD_SECRET)),
    ]
    for body, headers in wrong:
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            receiver.verify(body, headers)


@pytest.fixture(scope="module")
def javascript() -> Callable[[list[dict[str, object]]], list[dict[str, bool]]]:
    """Ask the libraries from npm, which are installed once into a cache folder, at the versions of the lock file."""
    cache = installed(JAVASCRIPT)

    def ask(deliveries: list[dict[str, object]]) -> list[dict[str, bool]]:
        done = subprocess.run(
            [program("node"), "verify.mjs"],
            cwd=cache,
            input="\n".join(map(json.dumps, deliveries)),
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ask


def test_the_libraries_from_npm_accept_ours_and_refuse_all_else(
    javascript: Callable[[list[dict[str, object]]], list[dict[str, bool]]],
) -> None:
    def delivery(body: bytes, signed: bytes) -> dict[str, object]:
        return {"secret": SECRET, "headers": headers_of(signed), "body": base64.b64encode(body).decode()}

    good = [delivery(body, body) for body in BODIES]
    bad = [delivery(other, body) for body in BODIES for other in flipped(body)]

    verdicts = javascript(good + bad)

    assert verdicts == [{"standard": True, "octokit": True}] * len(good) + [
        {"standard": False, "octokit": False}
    ] * len(bad)


def test_a_body_as_we_render_it_is_accepted(is_accepted: Callable[..., bool]) -> None:
    body = dump_json(
        {
            "event": "order.confirmed",
            "timestamp": datetime.now(UTC),
            "data": {"total_amount": Decimal("12.50"), "name": "ن"},
        }
    )
    assert b'"total_amount":12.50' in body
    assert is_accepted(body, headers_of(body))


@pytest.mark.django_db(transaction=True)
def test_the_guide_registers_and_changes_the_secret_word_for_word(
    live_server: Any, alice: Account, names: dict[str, Any]
) -> None:
    _, key = ApiKey.issue(alice, name="guide")

    printed = run_as_written("\n".join(blocks(GUIDE)), live_server, KEY=key, URL=live_server.url)

    registered, changed = map(json.loads, filter(None, printed))
    assert registered["data"]["url"] == changed["data"]["url"] == "https://shop.example/hooks/orders"
    assert registered["signing_secret"] != changed["signing_secret"]

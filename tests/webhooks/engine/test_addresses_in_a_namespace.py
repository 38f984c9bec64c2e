"""Nothing but public addresses is ever dialled: tried in a network namespace where every address is a canary."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.background import PATIENCE
from tests.harness.processes import CHECKOUT

from .certificates import Authority
from .namespace import ALIASES, NAMES, PUBLIC

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/sys/class/net").exists(),
    reason="Network namespaces need Linux and root: run `sudo .venv/bin/python -m pytest tests/webhooks/engine`.",
)

GOOD_NAMES = ["good.test", "good6.test", "alias-of-good.test"]
ODD_NAMES = ["redirect.test", "rebinding.test", "rebinding-back.test", "silent.test", *GOOD_NAMES]
BAD_NAMES = [name for name in [*NAMES, *ALIASES] if name not in ODD_NAMES]
BAD_HOSTS = [
    "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0x7f000001", "017700000001", "0177.0.0.1", "①②⑦.⓪.⓪.①", "127.0.0.1.",
    "localhost", "LOCALHOST.", "0.0.0.0", "0", "10.0.0.1", "10.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "2852039166", "100.64.0.1", "198.18.0.1", "192.0.0.8", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]",
    "[::ffff:0:10.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:7f00:1::]", "[fd00:ec2::254]", "[fc00::1]", "[fe80::1]", "[fe80::1%25lo]", "[fec0::1]", "[ff02::1]",
    "[2001:db8::1]", "[100::1]", "[5f00::1]",
]  # fmt: skip
PORTS = ("", ":8443")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def namespace() -> Iterator[list[str]]:
    """The prefix of commands that shall run inside: there every address leads back to the namespace itself."""
    name = f"codservice-{os.getpid()}"
    resolver = Path("/etc/netns") / name / "resolv.conf"
    _ip("netns", "add", name)
    try:
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "addr", "add", "8.8.8.8/32", "dev", "lo")
        _ip("-n", name, "route", "add", "local", "0.0.0.0/0", "dev", "lo")
        _ip("-n", name, "-6", "route", "add", "local", "::/0", "dev", "lo")
        resolver.parent.mkdir(parents=True, exist_ok=True)
        resolver.write_text("nameserver 127.0.0.1\n")
        yield ["ip", "netns", "exec", name]
    finally:
        _ip("netns", "delete", name)
        resolver.unlink(missing_ok=True)
        resolver.parent.rmdir()


@pytest.fixture(scope="module")
def went(namespace: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of a post to each of them, by URL, and what the canaries saw."""
    folder = tmp_path_factory.mktemp("namespace")
    authority = Authority(folder)
    authority.context(*GOOD_NAMES, *BAD_NAMES, "redirect.test", "rebinding.test", "rebinding-back.test", *PUBLIC)
    (certificate,) = [file for file in folder.iterdir() if file != authority.file]
    netrc = folder / ".netrc"
    netrc.write_text("machine good.test login merchant password secret\ndefault login any password secret\n")
    netrc.chmod(0o600)
    proxies = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "SOCKS_PROXY"), "http://10.0.0.1:3128")
    environment = proxies | {name.lower(): value for name, value in proxies.items()} | {"NETRC": str(netrc)}
    hosts = [*GOOD_NAMES, *BAD_NAMES, *BAD_HOSTS, "redirect.test", "silent.test"]
    hosts += ["rebinding.test", "rebinding-back.test"] * 6
    urls = [f"https://{host}{port}/hook" for host in hosts for port in PORTS]
    urls += ["https://8.8.8.8/hook", "https://[2001:4860:4860::8888]/hook", "http://8.8.8.8/hook"]
    done = subprocess.run(
        [*namespace, sys.executable, "-m", "tests.webhooks.engine.namespace"],
        input=json.dumps(
            {
                "urls": urls,
                "certificate": str(certificate),
                "ca_file": str(authority.file),
                "environment": list(environment),
            }
        ),
        env={**os.environ, **environment, "HOME": str(folder)},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["environment"] == environment
    return seen


def outcomes(went: dict[str, Any], hosts: list[str]) -> list[dict[str, Any]]:
    urls = {f"https://{host}{port}/hook" for host in hosts for port in PORTS}
    return [outcome for outcome in went["outcomes"] if outcome["url"] in urls]


def test_no_connection_reaches_an_address_that_is_not_public(went):
    assert {address for address, _ in went["hits"]} == set(PUBLIC)


def test_the_canaries_sing(went):
    assert went["canaries_tried"] == 24


@pytest.mark.parametrize("host", BAD_NAMES)
def test_a_name_with_any_address_that_is_not_public_is_blocked(went, host):
    assert [outcome["failure"] for outcome in outcomes(went, [host])] == ["blocked_address"] * 2


def test_it_is_blocked_at_every_attempt(went):
    assert went["again"] == ["blocked_address"] * 3


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_an_address_in_any_spelling_is_blocked_or_is_no_host(went, host):
    for outcome in outcomes(went, [host]):
        assert outcome["failure"] in ("blocked_address", "unreachable")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:a9fe:a9fe]", "0x7f.1"])
def test_the_usual_suspects_are_blocked_by_that_word(went, host):
    assert {outcome["failure"] for outcome in outcomes(went, [host])} == {"blocked_address"}


def test_public_receivers_are_reached_by_name_and_by_address(went):
    assert {outcome["failure"] for outcome in outcomes(went, GOOD_NAMES)} == {""}
    literal = [
        each
        for each in went["outcomes"]
        if each["url"] in ("https://8.8.8.8/hook", "https://[2001:4860:4860::8888]/hook")
    ]
    assert {outcome["failure"] for outcome in literal} == {""}


def test_what_is_blocked_looks_the_same_whatever_is_there(went):
    blocked = [outcome for outcome in went["outcomes"] if outcome["failure"] == "blocked_address"]
    assert {(outcome["status"], outcome["response"]) for outcome in blocked} == {(None, "")}
    assert max(outcome["own_milliseconds"] for outcome in blocked) < 1500


def test_a_name_that_changes_is_reached_where_it_is_public_and_else_blocked(went):
    found = {outcome["failure"] for outcome in outcomes(went, ["rebinding.test", "rebinding-back.test"])}
    assert found == {"", "blocked_address"}


def test_a_redirect_into_the_network_is_a_failure(went):
    assert {(each["failure"], each["status"]) for each in outcomes(went, ["redirect.test"])} == {("status", 302)}


def test_a_name_server_that_is_silent_costs_no_more_than_the_deadline(went):
    for outcome in outcomes(went, ["silent.test"]):
        assert outcome["failure"] in ("timeout", "unreachable")
        assert outcome["own_milliseconds"] <= 3300


def test_names_whose_server_is_silent_hold_up_no_other_name(went):
    took = {name: (failure, milliseconds) for name, failure, milliseconds in went["crowd"]}
    failure, milliseconds = took.pop("good.test")
    assert failure == ""
    assert milliseconds < 1000
    assert {failure for failure, _ in took.values()} <= {"timeout", "unreachable"}
    assert max(milliseconds for _, milliseconds in took.values()) <= 3300


def test_names_with_thousands_of_addresses_hold_up_no_other_name(went):
    assert len(went["beside_floods"]) == 101
    assert ["good.test", ""] in went["beside_floods"]
    floods = {failure for name, failure in went["beside_floods"] if name != "good.test"}
    assert "tls" in floods  # they were dialled; on a busy machine there is too little time for some
    assert floods <= {"tls", "timeout", "unreachable"}


def test_plain_http_is_not_spoken(went):
    (outcome,) = [outcome for outcome in went["outcomes"] if outcome["url"].startswith("http:")]
    assert outcome["failure"] == "bad_answer"
    assert ["8.8.8.8", 80] not in went["hits"]


def test_proxies_and_passwords_of_the_environment_are_left_alone(went):
    assert went["requests"]
    for request in went["requests"]:
        assert request.startswith("POST /hook HTTP/1.1\r\n")
        assert "authorization" not in request.lower()

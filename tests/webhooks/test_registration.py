"""Which URLs may be registered, and that the URL stored is the one dialled."""

import itertools
import re
import socket
import threading
import time
from types import SimpleNamespace
from urllib.parse import urlsplit
from uuid import uuid4

import ada_url
import pycurl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.harness.background import PATIENCE, Background, asleep, eventually
from webhooks import receivers, resolver
from webhooks.lookups import Lookups
from webhooks.posts import Post
from webhooks.transfer import Transfer

pytestmark = pytest.mark.usefixtures("names")

# What is sent → what is stored.
ACCEPTED = {
    "https://shop.example": "https://shop.example/",
    "https://shop.example/": "https://shop.example/",
    "HTTPS://Shop.EXAMPLE/Hooks": "https://shop.example/Hooks",
    "  https://shop.example/  ": "https://shop.example/",
    "\u200fhttps://shop.example/hooks\u200b": "https://shop.example/hooks",  # copied from a chat
    "\u2066https://shop.example/hooks\u2069 \ufeff": "https://shop.example/hooks",
    "https://shop.example/hooks?k=%E2%80%8B": "https://shop.example/hooks?k=%E2%80%8B",
    "https://shop.example:443/x": "https://shop.example/x",
    "https://shop.example:1024/": "https://shop.example:1024/",
    "https://shop.example:65535/": "https://shop.example:65535/",
    "https://shop.example:08443/": "https://shop.example:8443/",
    "https://shop.example./": "https://shop.example./",
    "https://my_shop.example/": "https://my_shop.example/",
    "https://متجر.example/طلبات?اسم=ن": "https://xn--pgbep1f.example/%D8%B7%D9%84%D8%A8%D8%A7%D8%AA?"
    "%D8%A7%D8%B3%D9%85=%D9%86",
    "https://bücher.example/": "https://xn--bcher-kva.example/",
    "https://ｓｈｏｐ．example/": "https://shop.example/",
    "https://shop。example/": "https://shop.example/",
    "https://sh%6Fp.example/": "https://shop.example/",
    "https://sh\u00adop.example/": "https://shop.example/",
    "https://shop.example\\hooks": "https://shop.example/hooks",
    "https:shop.example/x": "https://shop.example/x",
    "https:///shop.example/x": "https://shop.example/x",
    "https://shop.example/a/../b/%2e%2e/c": "https://shop.example/c",
    "https://shop.example/a b?c d": "https://shop.example/a%20b?c%20d",
    "https://shop.example/?u=http://127.0.0.1/@x": "https://shop.example/?u=http://127.0.0.1/@x",
    "https://shop.example/@x:80": "https://shop.example/@x:80",
    "https://8.8.8.8/": "https://8.8.8.8/",
    "https://134744072/": "https://8.8.8.8/",
    "https://0x8.0x8.0x8.0x8/": "https://8.8.8.8/",
    "https://010.8.8.8/": "https://8.8.8.8/",
    "https://[2606:4700:4700::1111]/": "https://[2606:4700:4700::1111]/",
    "https://[2606:4700:4700:0:0:0:0:1111]:8443/": "https://[2606:4700:4700::1111]:8443/",
    "https://" + "a" * 63 + ".example/": "https://" + "a" * 63 + ".example/",
}
_REFUSED = """
http://shop.example/ ftp://shop.example/ file:///etc/passwd gopher://shop.example/ javascript:alert(1) data:,x
shop.example //shop.example/ /hooks https:// https:/// https://? https://# https://:443/ x https
https://user@shop.example/ https://user:word@shop.example/ https://:word@shop.example/ https://@shop.example/
https://:@shop.example/ https:\\\\user@shop.example/ https:user@shop.example/ https://a@b@shop.example/
https://8.8.8.8@127.0.0.1/ https://127.0.0.1@8.8.8.8/ https://shop.example%40127.0.0.1/
https://shop.example/#x https://shop.example/# https://shop.example/?x#y
https://shop.example:0/ https://shop.example:1/ https://shop.example:80/ https://shop.example:442/
https://shop.example:444/ https://shop.example:1023/ https://shop.example:65536/ https://shop.example:99999999999/
https://shop.example:x/ https://shop.example:-1/ https://shop.example:٤٤٣/
https://127.0.0.1/ https://127.1/ https://127.0.1/ https://2130706433/ https://0x7f000001/ https://0x7f.1/
https://0177.0.0.1/ https://017700000001/ https://0/ https://0.0.0.0/ https://127.0.0.1./ https://127.0.0.1%00/
https://①②⑦.⓪.⓪.①/ https://１２７.０.０.１/ https://127。0。0。1/ https://127｡0｡0｡1/ https://%31%32%37.0.0.1/
https://169.254.169.254/latest/meta-data/ https://2852039166/ https://0xA9FEA9FE/ https://10.0.0.1/ https://10.1/
https://172.16.0.1/ https://192.168.1.1/ https://100.64.0.1/ https://198.18.0.1/ https://224.0.0.1/ https://240.0.0.1/
https://255.255.255.255/ https://192.0.2.1/ https://256.1.1.1/ https://1.2.3.4.5/ https://0x100000000/ https://1.2.3.08/
https://[::1]/ https://[::]/ https://[0:0:0:0:0:0:0:1]/ https://[::ffff:127.0.0.1]/ https://[::ffff:7f00:1]/
https://[::ffff:8.8.8.8]/ https://[::127.0.0.1]/ https://[64:ff9b::127.0.0.1]/ https://[64:ff9b::7f00:1]/
https://[64:ff9b:1::a00:1]/ https://[2002:7f00:1::]/ https://[2001:0:7f00:1::]/ https://[fe80::1]/ https://[fd00::1]/
https://[fec0::1]/ https://[ff02::1]/ https://[2001:db8::1]/ https://[::ffff:0:7f00:1]/ https://[100::1]/
https://[fe80::1%25eth0]/ https://[fe80::1%eth0]/ https://[::1 https://::1/ https://[::1]:80/ https://[127.0.0.1]/
https://localhost/ https://LOCALHOST/ https://localhost./ https://a.localhost/ https://localhost.localdomain/
https://ip6-localhost/ https://ip6-loopback/ https://printer.local/ https://db.internal/ https://metadata.google.internal/
https://router.home.arpa/ https://abc.onion/ https://ⓛocalhost/ https://loc%61lhost/ https://lo\u00adcalhost/
https://sh!op.example/ https://sh,op.example/ https://shop;.example/ https://a..example/ https://.example/ https://*/
https://shop.example../ https://sh^op.example/ https://sh|op.example/ https://sh%20op.example/
https://sh%0Aop.example/ https://sh%00op.example/ https://shop.example%2F/ https://$(id).example/
"""
REFUSED = [
    *_REFUSED.split(),
    "",
    " ",
    "https://shop.example/\t",
    "https://sh\top.example/",
    "https://127.0\n.0.1/",
    "https://shop.example/\r\nX-Evil: 1",
    "\x00https://shop.example/",
    "https://shop.example/\x00",
    "https://shop.example/\x7f",
    "https://shop.example/\x85",
    "https://shop.example/\ud800",
    "https://sh op.example/",
    "https://" + "a" * 64 + ".example/",
    "https://" + ".".join(["a" * 60] * 5) + "/",
    "https://shop.example/" + "x" * 2048,
    "https://shop.example/" + "ش" * 1000,  # 6 000 once encoded
    "https://shop.example/" + "x" * 1_000_000,
]


@pytest.mark.parametrize(("sent", "stored"), ACCEPTED.items())
def test_what_is_accepted_is_stored_normalised(sent, stored):
    assert receivers.normalise(sent) == stored
    assert receivers.normalise(stored) == stored


@pytest.mark.parametrize("sent", REFUSED)
def test_what_is_refused_is_refused_with_a_sentence(sent):
    with pytest.raises(receivers.Unusable, match=r"^[A-Z].*\.$"):
        receivers.normalise(sent)


def test_2048_characters_are_the_most():
    longest = "https://shop.example/" + "x" * (2048 - len("https://shop.example/"))

    assert receivers.normalise(longest) == longest
    with pytest.raises(receivers.Unusable):
        receivers.normalise(longest + "x")


@pytest.mark.django_db
def test_the_api_answers_with_what_is_stored(api):
    answer = api.post("/api/v1/webhooks", {"url": "https://Shop.Example:443/a b", "events": ["order.confirmed"]})

    assert answer.json()["data"]["url"] == "https://shop.example/a%20b"


# --- Names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["127.0.0.1"], ["::1"], ["169.254.169.254", "fe80::1"], ["::ffff:8.8.8.8"]]
)
def test_a_name_that_leads_nowhere_public_is_refused(names, addresses):
    names["shop.example"] = addresses

    with pytest.raises(receivers.Unusable, match="name resolves only"):
        receivers.normalise("https://shop.example/")


@pytest.mark.parametrize("addresses", [["8.8.8.8"], ["8.8.8.8", "10.0.0.1"], ["2606:4700:4700::1111"], []])
def test_a_name_that_may_be_public_or_does_not_resolve_is_accepted(names, addresses):
    names["shop.example"] = addresses

    assert receivers.normalise("https://shop.example/") == "https://shop.example/"


@pytest.mark.parametrize("host", ["db", "db.", "DB", "unknown", "ｄｂ"])
def test_a_machine_beside_us_is_not_told_from_none(names, host):
    """A name without a dot is refused in the same words whether it exists or not, and is never looked up."""
    asked: list[str] = []
    names["db"] = lambda: asked.append("db") or ["203.0.114.1"]

    with pytest.raises(receivers.Unusable, match=r"^The host must be a public one\.$"):
        receivers.normalise(f"https://{host}/")

    assert asked == []


@pytest.mark.parametrize("host", ["grafana.monitoring", "redis.3scale", "db.1a", "db.0xg"])
def test_names_are_not_looked_up_inside_our_own_domains(monkeypatch, host):
    """A search domain would make `grafana.monitoring` a service of our cluster."""
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *_, **__: asked.append(name) or [])
    lookups = Lookups(lambda: None, local_names=False)

    url = receivers.normalise(f"https://{host}/")
    lookups.addresses(Transfer(Post(uuid4(), url, "order.confirmed", b"", [], 1), time.monotonic()))
    eventually(lambda: list(lookups.answered()))

    assert asked == [f"{host}."] * 2


def test_of_a_name_with_thousands_of_addresses_the_first_of_each_family_count(monkeypatch):
    found = {
        socket.AF_INET6: [f"2600::{number:x}" for number in range(2300)],
        socket.AF_INET: [f"9.0.{number // 256}.{number % 256}" for number in range(4000)],
    }
    entries = [(family, 1, 6, "", (address, 443)) for family, some in found.items() for address in some]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)

    half = resolver.MOST_ADDRESSES // 2
    assert resolver.addresses_of("shop.example.") == [address for some in found.values() for address in some[:half]]


def test_answers_are_kept_no_longer_than_they_are_valid(names, monkeypatch):
    """However few there are."""
    clock = [1000.0]
    monkeypatch.setattr("webhooks.lookups.time", SimpleNamespace(monotonic=lambda: clock[0]))
    lookups = Lookups(lambda: None, local_names=False)
    for number in range(5):
        names[f"shop-{number}.example"] = ["8.8.8.8"]
        url = f"https://shop-{number}.example/"
        lookups.addresses(Transfer(Post(uuid4(), url, "order.confirmed", b"", [], 1), clock[0]))
        eventually(lambda: list(lookups.answered()))
        assert lookups.addresses_to_tell(url)
        clock[0] += 61

    assert (len(lookups._looked_up), len(lookups._told)) == (1, 1)


def test_an_answer_is_used_though_it_expires_before_the_next_look_at_the_clock(names, monkeypatch):
    """As when the machine was asleep in between."""
    clock = itertools.count(1000.0, 61.0)
    monkeypatch.setattr("webhooks.lookups.time", SimpleNamespace(monotonic=lambda: next(clock)))
    names["shop.example"] = ["8.8.8.8"]
    lookups = Lookups(lambda: None, local_names=False)
    lookups.addresses(Transfer(Post(uuid4(), "https://shop.example/", "order.confirmed", b"", [], 1), 1000.0))

    answers = []
    eventually(lambda: answers.extend(lookups.answered()) or answers)

    assert [addresses for _transfer, addresses in answers] == [["8.8.8.8"]]


def test_a_resolver_that_hangs_holds_nothing_up(names, monkeypatch):
    monkeypatch.setattr(receivers, "LOOKUP_SECONDS", 1.0)
    released = threading.Event()
    names["slow.example"] = lambda: released.wait(PATIENCE) and []
    before = asleep()

    try:
        others = [Background(lambda: receivers.normalise("https://slow.example/")) for _ in range(12)]
        assert receivers.normalise("https://slow.example/") == "https://slow.example/"
        assert asleep() - before < receivers.LOOKUP_SECONDS + 0.5
    finally:
        released.set()
    for other in others:
        other.result()
    names["inside.example"] = ["10.0.0.1"]
    eventually(lambda: not is_accepted("https://inside.example/"))


def is_accepted(url):
    try:
        return bool(receivers.normalise(url))
    except receivers.Unusable:
        return False


def test_one_at_a_time_waits_for_a_resolver(names):
    """Each wait holds a web thread, and all merchants share a few."""
    asked, released = threading.Event(), threading.Event()
    names["slow.example"] = names["other.example"] = lambda: asked.set() or (released.wait(PATIENCE) and [])
    first = Background(lambda: receivers.normalise("https://slow.example/"))
    assert asked.wait(PATIENCE)

    try:
        assert receivers.normalise("https://other.example/") == "https://other.example/"
        assert not first.is_over
    finally:
        released.set()
    assert first.result() == "https://slow.example/"
    names["inside.example"] = ["10.0.0.1"]
    with pytest.raises(receivers.Unusable):
        receivers.normalise("https://inside.example/")


def test_who_finds_another_waiting_is_checked_all_the_same(names, monkeypatch):
    monkeypatch.setattr(receivers, "MEANWHILE_SECONDS", PATIENCE)
    asked, released = threading.Event(), threading.Event()
    names["slow.example"] = lambda: asked.set() or (released.wait(PATIENCE) and [])
    names["inside.example"] = ["10.0.0.1"]
    first = Background(lambda: receivers.normalise("https://slow.example/"))
    assert asked.wait(PATIENCE)

    try:
        with pytest.raises(receivers.Unusable, match="name resolves only"):
            receivers.normalise("https://inside.example/")
        assert not first.is_over
    finally:
        released.set()
    first.result()


def test_where_no_thread_can_be_had_a_name_is_believed_and_the_next_is_looked_up_again(names):
    names["inside.example"] = ["10.0.0.1"]
    usual = threading.stack_size(1 << 62)  # bytes, more than a thread can have
    try:
        assert {is_accepted("https://inside.example/") for _ in range(20)} == {True}
    finally:
        threading.stack_size(usual)
    assert not is_accepted("https://inside.example/")


# --- On one machine --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000/",
        "http://localhost/",
        "https://localhost:8443/x",
        "http://[::1]:9000/",
        "http://sink:80/",
    ],
)
def test_private_hosts_and_http_are_for_development(url, settings):
    with pytest.raises(receivers.Unusable):
        receivers.normalise(url)
    settings.WEBHOOK_ALLOW_PRIVATE = True

    assert receivers.normalise(url).startswith(url[:-1].removesuffix(":80").removesuffix("/"))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:22/", "http://u@localhost/", "ftp://localhost/", "http://localhost/#x"]
)
def test_the_other_rules_hold_there_too(url, settings):
    settings.WEBHOOK_ALLOW_PRIVATE = True

    with pytest.raises(receivers.Unusable):
        receivers.normalise(url)


# --- libcurl reads the stored URL again ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxy():
    """A proxy that refuses every CONNECT and remembers its target: what libcurl takes for host and port."""
    asked = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked.append(connection.recv(8192).split(b"\r\n")[0].split(b" ")[1].decode())
                connection.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1], asked
    server.close()


def dialled_by_curl(url, proxy):
    port, asked = proxy
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.PROXY, f"http://127.0.0.1:{port}")
    curl.setopt(pycurl.NOPROXY, "")
    curl.setopt(pycurl.TIMEOUT, int(PATIENCE))
    with pytest.raises(pycurl.error, match="403"):
        curl.perform()
    curl.close()
    return asked.pop()


def assert_all_parsers_agree(url, proxy):
    parsed = ada_url.URL(url)
    port = int(parsed.port or 443)
    assert dialled_by_curl(url, proxy).replace(".:", ":") == f"{parsed.hostname.removesuffix('.')}:{port}"
    # The sender looks names up before libcurl gets the URL.
    parts = urlsplit(url)
    assert (parts.hostname, parts.port or 443) == (parsed.hostname.strip("[]"), port)


@pytest.mark.parametrize("url", sorted(set(ACCEPTED.values())))
def test_libcurl_dials_the_host_that_was_checked(url, proxy):
    assert_all_parsers_agree(url, proxy)


_SPECIAL = st.sampled_from(list(".:@/\\?#[]%0x1279.①．。ⓛaé\u00ad ;,&=!~_-"))
_HOSTS = st.sampled_from(["8.8.8.8", "127.0.0.1", "shop.example", "0x7f", "[::1]"])
_URLS = st.builds(
    lambda start, host, rest: start + host + rest,
    st.sampled_from(["https://", "https:", "HTTPS:\\\\", "https:///"]),
    st.lists(st.one_of(_HOSTS, _SPECIAL), max_size=6).map("".join),
    st.text(_SPECIAL, max_size=12),
)  # fmt: skip


@settings(max_examples=400)
@given(_URLS)
@example("https://8.8.8.8\\@127.0.0.1/")
@example("https://shop.example:443:80/")
def test_whatever_is_accepted_means_the_same_to_all_parsers(proxy, url):
    try:
        stored = receivers.normalise(url)
    except receivers.Unusable:
        return
    assert re.fullmatch(r"https://[a-z0-9_.-]+(:\d+)?/[!-~]*|https://\[[0-9a-f:]+\](:\d+)?/[!-~]*", stored)
    assert_all_parsers_agree(stored, proxy)

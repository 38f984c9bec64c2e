"""What only a socket shows: methods, framing, strange paths and headers, through the web processes that really run."""

import json
from datetime import timedelta
from email.utils import parsedate_to_datetime
from uuid import UUID

import pytest
from django.utils import timezone

from orders.models import Order
from tests.factories import AccountFactory, order_body
from tests.harness.client import new_key

ORDERS = "/api/v1/orders"
BODY = json.dumps(order_body()).encode()
JSON = {"Content-Type": "application/json"}


def pieces(data, size):
    for start in range(0, len(data), size):
        yield data[start : start + size]


def test_an_order_can_be_imported_in_chunks(service, key):
    answer = service.send("POST", ORDERS, pieces(BODY, 10), JSON, key=key, encode_chunked=True)
    assert answer.status == 201
    assert Order.objects.get().customer_name == "Amine Benali"


def test_an_answer_says_when_it_was_given(service, key):
    """Clients whose clock is wrong go by it (docs/orders.md, "What has changed")."""
    before = timezone.now()
    said = parsedate_to_datetime(service.send("GET", ORDERS, key=key).headers["Date"])  # in whole seconds
    assert before - timedelta(seconds=2) < said <= timezone.now()


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_over_one_mebibyte_is_refused_with_and_without_its_length(service, key, chunked):
    body = BODY.ljust(3_000_000)
    if chunked:
        answer = service.send("POST", ORDERS, pieces(body, 60_000), JSON, key=key, encode_chunked=True)
    else:
        answer = service.send("POST", ORDERS, body, JSON, key=key)
    assert (answer.status, answer.json()["error"]) == (413, "payload_too_large")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "FOO"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [(ORDERS, "GET, HEAD, POST"), (f"{ORDERS}/0199d9a0-0000-7000-8000-000000000000", "GET, HEAD, PATCH")],
)
def test_other_methods_are_not_allowed(service, key, method, path, allowed):
    answer = service.send(method, path, key=key)
    assert (answer.status, answer.json()["error"], answer.headers["Allow"]) == (405, "method_not_allowed", allowed)


def test_a_method_cannot_be_overridden(service, key):
    answer = service.send("POST", ORDERS, headers={"X-HTTP-Method-Override": "GET"}, key=key)
    assert answer.status == 400


def test_head_is_get_without_the_body(service, key):
    get, head = service.send("GET", ORDERS, key=key), service.send("HEAD", ORDERS, key=key)
    assert (head.status, head.body) == (200, b"")
    assert head.headers.keys() == get.headers.keys()
    known = service.send("HEAD", "/api/v1/regions/wilayas", headers={"If-None-Match": "*"}, key=key)
    assert (known.status, known.headers.get("Content-Length")) == (304, None)  # that of GET, or none (RFC 9110, 8.6)


@pytest.mark.parametrize("charset", ["idna", "zlib", "punycode", "utf-16", "bogus", "utf-7", "latin-1"])
def test_the_query_is_utf8_whatever_charset_the_body_names(service, key, charset):
    service.send("POST", ORDERS, order_body(external_id="é1"), key=key)
    headers = {"Content-Type": f"application/json; charset={charset}"}
    answer = service.send("GET", f"{ORDERS}?external_id=%C3%A91", headers=headers, key=key)
    assert (answer.status, answer.json()["meta"]["total"]) == (200, 1)
    assert (
        service.send("POST", f"{ORDERS}?a=%C3%A9", BODY, headers, key=key).json()["error"] == "unsupported_media_type"
    )


@pytest.mark.parametrize(
    "parameter", ["a*=bogus''%20", "charset*=idna''%ff", "x*=undefined''%20", "a*=x; a*0=y", 'a="' + ";" * 40_000]
)
def test_a_content_type_that_cannot_be_read_is_none(service, key, parameter):
    headers = {"Content-Type": f"application/json; {parameter}"}
    assert service.send("GET", "/healthz", headers=headers).status == 200
    assert service.send("GET", ORDERS, headers=headers, key=key).status == 200
    assert service.send("POST", ORDERS, BODY, headers, key=key).json()["error"] == "unsupported_media_type"


def test_too_many_parameters_are_refused(service, key):
    answer = service.send("GET", f"{ORDERS}?{'a=&' * 1001}", key=key)
    assert (answer.status, answer.json()["error"]) == (400, "bad_request")
    assert answer.json()["message"] == "The address has more than 1 000 parameters."


def test_a_part_of_a_form_whose_head_cannot_be_read_is_refused(service):
    body = b"--x\r\nContent-Disposition: form-data; a*=x; a*0=y\r\n\r\n1\r\n--x--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Cookie": f"csrftoken={'a' * 32}"}
    assert service.send("POST", "/account/login", body, headers).status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/orders/",
        "/api/v1/orders//",
        "/api/v1//orders",
        "/api/v1/Orders",
        "/api/v1",
        "/api/v1/",
        "//api/v1/orders",
        "/api/v1x",
        "/api/v2/orders",
        "/api/",
        "/api/v1/orders/%00",
        "/api/v1/orders/%ff%fe",
        "/api/v1/orders/..%2f..%2fhealthz",
        "/api/v1/orders/" + "a" * 8000,
        "/api/v1/orders.json",
        "/api/v1/orders;x=1",
    ],
)
def test_unknown_paths_are_not_found_in_json_and_never_redirected(service, key, path):
    for method in ("GET", "POST"):
        answer = service.send(method, path, BODY if method == "POST" else None, JSON, key=key)
        assert (answer.status, answer.json()["error"]) == (404, "not_found")
        assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/api/v1/orders/", True),
        ("/api/v1//orders", True),
        ("//api/v1/orders?q=1", True),
        ("//api//v1/orders//", True),
        ("/api/docs/", True),
        ("/api/v1/Orders/", False),
        ("/api/v1/", False),
        (f"/api/v1/orders/{UUID(int=7)}", False),
    ],
)
def test_who_sends_a_slash_too_many_is_told_so(service, key, path, is_one):
    answer = service.send("GET", path, key=key)
    assert (answer.status, answer.json()["error"]) == (404, "not_found")
    assert ("it has a slash too many" in answer.json()["message"]) == is_one


@pytest.mark.parametrize("path", ["/api/v1/Orders", "//api/v1/orders"])
def test_an_unknown_path_is_not_found_whatever_is_sent_to_it(service, key, path):
    answer = service.send("POST", path, b"x" * 20_000, JSON, key=key)
    assert (answer.status, answer.json()["error"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/api/v1/orders", "/api%2Fv1/orders", "/api/v1%2forders", "/%61pi/v1/orders"])
def test_an_escaped_path_is_the_same_path_in_the_same_window(service, charlies_key, path):
    for remaining in ("2", "1"):
        assert service.send("GET", path, key=charlies_key).headers["X-RateLimit-Remaining"] == remaining
    assert service.send("GET", ORDERS, key=charlies_key).headers["X-RateLimit-Remaining"] == "0"
    assert service.send("GET", path, key=charlies_key).status == 429


@pytest.fixture
def charlies_key(transactional_db):
    return new_key(AccountFactory(rate_limit=3))


def test_a_body_that_waits_to_be_asked_for_is_asked_for(service, key):
    head = f"POST {ORDERS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n"
    answers = service.send_raw(head.encode() + BODY)
    assert b"HTTP/1.1 201 " in answers
    assert b"HTTP/1.1 5" not in answers


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4, 5",
        "Content-Length: -1",
        "Content-Length: +4",
        "Content-Length: 0x4",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\x0bchunked",
    ],
)
def test_a_body_of_doubtful_length_smuggles_no_second_request(service, key, framing):
    """Whatever length a proxy before us assumed, what follows the body is never taken as a request with this key."""
    hidden = f"GET {ORDERS}?hidden HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
    head = f"POST {ORDERS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{framing}\r\n\r\n"
    answers = service.send_raw(f"{head}0\r\n\r\n{hidden}".encode("latin-1"))
    assert b"HTTP/1.1 200" not in answers
    assert b"HTTP/1.1 5" not in answers


def test_two_authorization_headers_are_none(service, key):
    request = f"GET {ORDERS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    answer = service.send_raw(f"{request}Authorization: Bearer {key}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_two_idempotency_keys_are_none(service, key):
    """Joined, they would make a third key that nobody chose, and a retry with another pair would import again."""
    head = f"POST {ORDERS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    keys = "Idempotency-Key: cart-1\r\nIdempotency-Key: try-1\r\n"
    sent = f"{head}{keys}Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\nConnection: close\r\n\r\n"
    answer = service.send_raw(sent.encode() + BODY)
    assert answer.startswith(b"HTTP/1.1 422 ")
    assert b'"Idempotency-Key":["Must be one key of 1 to 255 visible ASCII characters."]' in answer
    assert not Order.objects.exists()


def test_pipelined_requests_are_each_answered_and_counted(service, key):
    one = f"GET {ORDERS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    answers = service.send_raw(f"{one}\r\n{one}\r\n{one}Connection: close\r\n\r\n".encode()).lower()
    assert answers.count(b"http/1.1 200 ok") == 3
    for remaining in (999_999, 999_998, 999_997):
        assert b"x-ratelimit-remaining: %d\r\n" % remaining in answers


def test_a_host_that_is_not_ours_is_refused_in_json(service, key):
    answer = service.send("GET", ORDERS, headers={"Host": "evil.example"}, key=key)
    assert (answer.status, answer.json()["error"]) == (400, "bad_request")
    assert "host name" in answer.json()["message"]
    assert "evil" not in answer.body.decode()


def test_both_content_length_and_chunks_never_smuggle_a_request(service, key):
    smuggled = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
    head = f"POST {ORDERS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    both = f"{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
    answers = service.send_raw(both.encode())
    assert not (answers.count(b"HTTP/1.1 ") == 2 and b"HTTP/1.1 201" in answers)
    assert b"HTTP/1.1 5" not in answers

"""Who may open what: the table of every address of the service, and how a test tries one.

The addresses come from the URL configuration. Until a new one has its place in the table, it is expected to be open
only to operators in the console, only to a live key in the API (but to none under /test/), and to nobody elsewhere.
"""

from collections.abc import Container, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from tests.harness.addresses import Address, addresses

EVERYBODY = {
    "home", "login", "logout", "password-forgotten", "password-link-sent", "password-new", "invitation", "set_language",
    "schema", "api-docs", "docs", "docs-search", "docs-fr", "docs-page", "/docs", "/docs/fr/search",
    "/docs/fr/<path:name>", "docs-ar", "/docs/ar/search", "/docs/ar/<path:name>",
    "/account", "/console", "admin:login", "admin:logout", "regions-wilayas", "regions-communes", "regions-lookup",
}  # fmt: skip
# Where a merchant's people may use any method for their own affairs, whatever their role.
OWN_AFFAIRS = {"password", "account-mode", "sessions", "end-session", "end-other-sessions", "codes", "leave-team"}
# What a colleague who may only read can see, but not change.
READERS = OWN_AFFAIRS | {
    "account", "quick-start", "quick-start-progress", "account-orders", "account-order", "account-fees",
    "account-webhooks", "account-webhook", "account-delivery", "account-orders-csv", "account-orders-xlsx",
    "account-figures-csv", "account-products", "account-product", "account-calling",
    "account-products-csv", "account-products-xlsx", "account-script",
    "account-upload", "account-upload-progress", "account-upload-refused-csv", "account-upload-refused-xlsx",
}  # fmt: skip
SEEN_BY_MANAGERS = {"api-keys"}  # holders change these
MANAGERS = READERS | SEEN_BY_MANAGERS | {
    "account-order-cancel", "account-order-new", "account-order-correct", "account-webhook-ping",
    "account-webhook-rotate", "account-webhook-delete", "account-webhook-change", "account-webhook-recover",
    "account-webhook-resend", "account-delivery-resend",
    "account-product-new", "account-product-stock", "account-products-upload",
    "account-orders-upload", "account-orders-example", "account-products-example",
    "account-upload-piece", "account-upload-stop", "account-upload-discard",
}  # fmt: skip
HOLDERS = MANAGERS | {
    "account-data", "account-data-export", "account-data-customer", "account-data-erase",
    "revoke-key", "security", "team", "colleague", "colleague-remove", "colleague-codes", "invitation-again",
    "invitation-withdraw",
}  # fmt: skip
STAFF = {
    "admin:index",
    "admin:password_change",
    "admin:password_change_done",
    "admin:jsi18n",
    "admin:codes",
    "admin:keys",
    "password",
}
AGENTS = STAFF | {
    "admin:desk", "admin:desk_now", "admin:desk_next", "admin:desk_take", "admin:call", "admin:call_outcome",
    "admin:call_state",
    "admin:call_keep", "admin:call_edit", "admin:regions", "admin:claims", "admin:orders_order_changelist",
    "admin:orders_order_change", "admin:orders_order_note", "admin:orders_order_cancel", "admin:orders_order_ship",
    "admin:orders_order_deliver", "admin:orders_order_return", "admin:app_list", "admin:own_day",
}  # fmt: skip
SUPERVISORS = AGENTS | {
    "admin:review", "admin:moves", "admin:people", "admin:periods", "admin:person_new", "admin:person", "admin:rules",
    "admin:person_day", "admin:person_serves", "admin:rules_of", "admin:figures", "admin:figures_csv", "admin:bulk",
}  # fmt: skip
ALL = addresses()
API = {address.name for address in ALL if address.is_api and "/test/" not in address.route}  # with a live key
PAGES = [address for address in ALL if not address.is_api]
HISTORIES = {address.name for address in PAGES if address.name.endswith("_history")}  # Django's own
OPERATORS = {address.name for address in ALL if address.route.startswith("/console")}
OPEN = {
    "stranger": set(), "key": API, "holder": HOLDERS, "manager": MANAGERS, "reader": READERS, "roleless": STAFF,
    "agent": AGENTS, "supervisor": SUPERVISORS, "operator": OPERATORS | STAFF,
}  # fmt: skip
WITNESSES = ("stranger", "holder", "operator", "agent")  # together they see every page
# Where people are redirected who may not enter.
ELSEWHERE = {"/", "/console/", "/console/desk/", "/account/", "/account/quick-start", "/account/orders"}

# Pages that show others' texts only when asked to.
ASKED = {
    "admin:figures": ["/console/figures/?by=source"],
    "admin:bulk": ["/console/bulk/?action=assign&every=1&status=all"],
}


def is_open(address: Address, person: str) -> bool:
    return address.name in EVERYBODY | OPEN[person]


def ask(client: Client, method: str, path: str) -> HttpResponse:
    """The answer, after following redirects inside the service that are not refusals (`is_refused`)."""
    response = client.generic(method, path)
    for _ in range(3):
        if response.status_code not in (301, 302) or is_refused(response):
            break
        response = client.get(response.url)
    return response


def is_refused(response: HttpResponse) -> bool:
    """Whether the answer is a refusal: by its status, or a redirect to the login or to the person's own place."""
    if response.status_code in (301, 302):
        to = urlsplit(response.url)
        return "login" in to.path or to.path in ELSEWHERE
    return response.status_code in (400, 401, 403, 404, 405)


@contextmanager
def undone(client: Client) -> Iterator[None]:
    """Undo whatever is changed inside, including who is signed in."""
    cookies, block = client.cookies.copy(), transaction.atomic()
    block._from_testcase = True  # a view may still ask for a transaction of its own
    with block:
        yield
        transaction.set_rollback(True)
    client.cookies = cookies


def pages_of(client: Client, person: str, but: Container[str] = ()) -> Iterator[tuple[str, str, HttpResponse]]:
    """(name, path, answer) of each page that a person can open, skipping names that are in `but` by then."""
    for address in PAGES:
        if is_open(address, person):
            for path in address.some_paths() + ASKED.get(address.name, []):
                if address.name in but:
                    break
                answer = client.get(path)
                if answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/html"):
                    yield address.name, path, answer

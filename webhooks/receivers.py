"""Which URLs may be registered, in the one form in which they are stored, shown and dialled (docs/webhooks.md).

One parser decides: Ada, after the WHATWG standard. What it gives back is plain ASCII with the host spelled out (an
address in its usual digits, a name in its DNS form), so that libcurl, which reads it again, cannot read another host.
A name is looked up here only to tell a merchant early; what counts is the one that is dialled (`webhooks.transfer`).
"""

import re
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LookupTimeout

import ada_url
from django.conf import settings
from django.utils.translation import gettext as _

from webhooks.addresses import is_public
from webhooks.resolver import absolute, addresses_of

MAX_LENGTH = 2048  # characters, as sent and as stored
LOOKUP_SECONDS = 1.0  # what a registration waits for a name's addresses
_WAITS = threading.Lock()  # so long one at a time in this process: it holds one of the few threads for all accounts
MEANWHILE_SECONDS = 0.05  # what others wait, in which a resolver that is well answers
_LOOKUPS = threading.BoundedSemaphore(8)  # at once in this process; a slow resolver shall not collect threads

# Spaces, joiners and marks of direction: what comes along when an address is copied out of a text, and nobody sees.
_UNSEEN = " \xa0\ufeff" + "".join(map(chr, [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A)]))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_AUTHORITY = re.compile(r"[a-z]+:[/\\]*([^/\\?#]*)", re.IGNORECASE)
# The names that DNS carries. The standard allows more, of which libcurl refuses a part.
_NAME = re.compile(r"(?=.{1,253}\.?$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
# Names that lead nowhere public, by RFC 6761, 6762, 8375, 7686 and ICANN's reservation of `internal`; and those without
# a dot, which ICANN allows no public host, but which may be machines beside us. None of them is looked up.
_LOCAL_NAME = re.compile(r"(.*\.)?(localhost|localdomain|local|internal|home\.arpa|onion)|[^.]*")


class Unusable(ValueError):
    """The URL may not be registered; the message is a sentence that says why."""


def normalise(text: str) -> str:
    """`text` as it is to be stored. Raises Unusable.

    With the setting WEBHOOK_ALLOW_PRIVATE `http:` and hosts that are not public pass too. May wait LOOKUP_SECONDS
    for the resolver, so it has no place in a transaction.
    """
    text = text.strip(_UNSEEN)
    if len(text) > MAX_LENGTH:
        raise Unusable(_("Must have at most %(most)d characters.") % {"most": MAX_LENGTH})
    if _CONTROL.search(text):
        raise Unusable(_("Must not contain control characters or broken Unicode."))
    try:
        url = ada_url.URL(text)
    except ValueError:
        raise Unusable(_("Must be a complete URL, such as https://shop.example/hooks.")) from None
    if url.protocol != "https:" and not (url.protocol == "http:" and settings.WEBHOOK_ALLOW_PRIVATE):
        raise Unusable(_("Must start with https://."))
    authority = _AUTHORITY.match(text)
    if url.username or url.password or (authority and "@" in authority[1]):
        raise Unusable(_("Must not contain a user name or password."))
    if "#" in text:
        raise Unusable(_("Must not have a fragment (#…)."))
    port = int(url.port) if url.port else {"https:": 443, "http:": 80}[url.protocol]
    if not (1024 <= port <= 65535 or port == 443 or (port == 80 and url.protocol == "http:")):
        raise Unusable(_("The port must be 443 or from 1024 to 65535."))
    _check_host(url)
    if len(url.href) > MAX_LENGTH:
        sentence = _("Must have at most %(most)d characters once its special characters are encoded.")
        raise Unusable(sentence % {"most": MAX_LENGTH})
    return url.href


def _check_host(url: ada_url.URL) -> None:
    if url.host_type != ada_url.HostType.DEFAULT:
        if not settings.WEBHOOK_ALLOW_PRIVATE and not is_public(url.hostname.strip("[]")):
            raise Unusable(_("The host's address must be a public one."))
        return
    if not _NAME.fullmatch(url.hostname):
        raise Unusable(_("The host's name is not a valid DNS name."))
    if settings.WEBHOOK_ALLOW_PRIVATE:
        return
    if _LOCAL_NAME.fullmatch(url.hostname.removesuffix(".")):
        raise Unusable(_("The host must be a public one."))
    addresses = _look_up(url.hostname)
    if addresses and not any(is_public(address) for address in addresses):
        raise Unusable(_("The host's name resolves only to addresses that are not public."))


def _look_up(name: str) -> list[str]:
    """The addresses that `name` has; none when it has none, the resolver does not answer in time, or too many names
    wait for it.
    """
    if not _LOOKUPS.acquire(blocking=False):
        return []
    future: Future[list[str]] = Future()
    is_first = _WAITS.acquire(blocking=False)
    try:
        # A daemon: a resolver that never answers holds up neither the request nor the end of the process.
        threading.Thread(target=_resolve, args=(name, future), daemon=True).start()
        return future.result(LOOKUP_SECONDS if is_first else MEANWHILE_SECONDS)
    except LookupTimeout:
        return []
    finally:
        if is_first:
            _WAITS.release()


def _resolve(name: str, future: "Future[list[str]]") -> None:
    try:
        found = addresses_of(absolute(name))
    finally:
        _LOOKUPS.release()
    future.set_result(found)

"""Which URLs may be registered, in the one form in which they are stored, shown and dialled (docs/webhooks.md).

One parser decides: Ada, which follows the WHATWG standard. It returns plain ASCII with the host in its normal form (an
address in its usual digits, a name as in DNS), so that libcurl, which parses it again, cannot read a different host.
Names are looked up here only to tell a merchant early; the address that is dialled is what counts
(`webhooks.transfer`).
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
LOOKUP_SECONDS = 1.0  # how long a registration waits for a name's addresses
_WAITS = threading.Lock()  # only one of this process waits that long, since its few threads serve all accounts
MEANWHILE_SECONDS = 0.05  # how long others wait; a healthy resolver answers within it
_LOOKUPS = threading.BoundedSemaphore(8)  # at once in this process, so that a slow resolver does not pile up threads

# Spaces, joiners and direction marks: invisible characters that come along when a URL is copied out of a text.
_UNSEEN = " \xa0\ufeff" + "".join(map(chr, [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A)]))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_AUTHORITY = re.compile(r"[a-z]+:[/\\]*([^/\\?#]*)", re.IGNORECASE)
# The names that DNS carries. The URL standard allows more, but libcurl refuses some of those.
_NAME = re.compile(r"(?=.{1,253}\.?$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
# Names that are never public, by RFC 6761, 6762, 8375, 7686 and ICANN's reservation of `internal`; and names without a
# dot, which ICANN allows to no public host but which may be machines in our network. None of them is looked up.
_LOCAL_NAME = re.compile(r"(.*\.)?(localhost|localdomain|local|internal|home\.arpa|onion)|[^.]*")


class Unusable(ValueError):
    """The URL may not be registered. The message is a sentence that says why."""


def normalise(text: str) -> str:
    """Return the URL in `text` as it is to be stored. Raises Unusable.

    With the setting WEBHOOK_ALLOW_PRIVATE, `http:` and hosts that are not public are allowed too. May wait
    LOOKUP_SECONDS for the resolver, so do not call it in a transaction.
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
        said = _("Must start with https://.")
        if url.protocol == "http:":  # often a developer's own machine, which https would not help
            try:
                _check_host(url)
            except Unusable as too:
                said = f"{said} {too}"
        raise Unusable(said)
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
    """Return the addresses of `name`; none if it has none, the resolver is late, or it cannot be asked now."""
    if not _LOOKUPS.acquire(blocking=False):
        return []
    future: Future[list[str]] = Future()
    is_first = _WAITS.acquire(blocking=False)
    try:
        # A daemon thread, so that a resolver that never answers holds up neither the request nor the process's end.
        threading.Thread(target=_resolve, args=(name, future), daemon=True).start()
        return future.result(LOOKUP_SECONDS if is_first else MEANWHILE_SECONDS)
    except RuntimeError:  # the system allows no more threads
        _LOOKUPS.release()
        return []
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

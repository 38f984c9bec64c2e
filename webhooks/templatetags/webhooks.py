"""How deliveries and attempts are shown to people: `{% load webhooks %}`."""

from django import template
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from webhooks import posts
from webhooks.models import Attempt, Delivery, Event

register = template.Library()

STATUSES = {
    Delivery.Status.PENDING: _("Waiting"),
    Delivery.Status.DELIVERED: pgettext_lazy("webhook", "Delivered"),
    Delivery.Status.FAILED: _("Failed"),
    Delivery.Status.DROPPED: _("Dropped"),
}
KINDS = {
    Event.Kind.ORDER_CREATED: _("an order came in"),
    Event.Kind.ORDER_UPDATED: _("an order was corrected"),
    Event.Kind.ORDER_CALL_ATTEMPTED: _("a call ended without a decision"),
    Event.Kind.ORDER_CONFIRMED: _("an order was confirmed"),
    Event.Kind.ORDER_CANCELLED: _("an order was canceled"),
    Event.Kind.ORDER_SHIPPED: _("an order was shipped"),
    Event.Kind.ORDER_DELIVERED: _("an order was delivered"),
    Event.Kind.ORDER_RETURNED: _("an order was returned"),
    Event.Kind.PRODUCT_UPDATED: _("a product was created or changed"),
    Event.Kind.INVENTORY_UPDATED: _("stock changed"),
    Event.PING: _("test event"),
}
REASONS = {
    posts.TIMEOUT: _("No answer within 3 seconds."),
    posts.UNREACHABLE: _("The address could not be reached."),
    posts.BLOCKED: _("The URL leads to an address that is not public."),
    posts.TLS: _(
        "The certificate or the encryption is not valid. If browsers accept it, ask your host for the complete chain."
    ),
    posts.BAD_ANSWER: _("Your shop closed the connection, or its answer was not valid HTTP."),
    posts.STATUS: _("Only a status from 200 to 299 is an acknowledgement."),
    posts.NO_SECRET: _("The signing secret can no longer be read. Create a new one."),
    posts.UNRECORDED: _("An error on our side: the result of this attempt could not be recorded."),
}
_MOVED = _("Your shop redirects to another address, which we do not follow. Enter the address where it leads.")
_SHUT = _("Your shop asks for a sign-in, or its firewall blocks us. Let our requests through.")
_ABSENT = _("There is nothing at this address. Correct the address, or put there what receives events.")
_BROKEN = _("The program in your shop failed. Its own log says why.")
# What a status tells the merchant. Any other is only said to be no acknowledgement.
STATUS_REASONS = {
    **dict.fromkeys((301, 302, 303, 307, 308), _MOVED),
    **dict.fromkeys((401, 403), _SHUT),
    **dict.fromkeys((404, 410), _ABSENT),
    405: _("This address does not accept POST. Correct the address, or let it accept POST."),
    419: _("Your shop's framework wants a CSRF token. Let this address do without that check."),
    429: _("Your shop gets too many requests. Let more of ours through."),
    **dict.fromkeys(range(500, 600), _BROKEN),
}


@register.filter
def status_word(status: str) -> str:
    return STATUSES[Delivery.Status(status)]


@register.filter
def kind_words(kind: str) -> str:
    return KINDS.get(kind, kind)


@register.filter
def reason(attempt: Attempt) -> str:
    """Return a sentence that says why the attempt was not acknowledged; empty when it was."""
    if attempt.failure == posts.STATUS and attempt.status_code in STATUS_REASONS:
        return STATUS_REASONS[attempt.status_code]
    return REASONS.get(attempt.failure, attempt.failure)


@register.filter
def text(attempt: Attempt) -> str:
    """Return the beginning of the attempt's answer, whatever that is. The template escapes it."""
    return attempt.answer.replace("\0", "\N{SYMBOL FOR NULL}")

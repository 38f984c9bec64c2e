"""A signed record of what a screen showed and when, which each outcome sends back.

Without it, the second press of a double click would decide about the next customer, whom nobody has called.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from codservice.accounts.models import User
from codservice.errors import Refused

SETTLED = timedelta(seconds=1)  # a screen's age before it may be pressed; its script waits as long
SETTLED_MS = int(SETTLED.total_seconds() * 1000)
_SIGNER = "agents.desk.shown"


class TooSoon(Refused):
    """The screen was shown too recently for anybody to have read whose it is."""

    code, status = "too_soon", 409
    message = _("This customer has only just appeared. Check who it is, then press again.")


def as_sent(versions: Mapping[UUID, int]) -> list[str]:
    """Orders and their versions as a page holds them and sends them back: `<order id>:<version>` for each."""
    return [f"{order_id}:{version}" for order_id, version in versions.items()]


def versions_in(sent: Iterable[str]) -> dict[UUID, int]:
    """The versions that a page sent. Raises ValueError."""
    pairs = [text.split(":") for text in sent]
    return {UUID(order_id): int(version[:9]) for order_id, version in pairs}


def seal(claim_id: UUID, shown_at: str, seen: Sequence[str]) -> str:
    """Sign the claim, the time and the orders with their versions, as the form sends them."""
    return Signer(salt=_SIGNER).signature(_text_to_sign(claim_id, shown_at, seen))


def is_sealed(claim_id: UUID, shown_at: str, seen: Sequence[str], signature: str) -> bool:
    try:
        Signer(salt=_SIGNER).unsign(f"{_text_to_sign(claim_id, shown_at, seen)}:{signature}")
    except BadSignature:
        return False
    return True


def draft_prefix(agent: User) -> str:
    """The prefix of the agent's draft names, so that colleagues at the same computer see none of them."""
    return salted_hmac("agents.desk.drafts", str(agent.pk), algorithm="sha256").hexdigest()[:8]


def draft_name(phone_e164: str, agent: User) -> str:
    """The name under which the agent's browser keeps a draft note about this customer. It hides the number."""
    return draft_prefix(agent) + salted_hmac("agents.desk.draft", phone_e164, algorithm="sha256").hexdigest()[:16]


def check_age(shown_at: datetime | None, now: datetime) -> None:
    """Raises TooSoon. Both times are the database's; `shown_at` is None when no screen was pressed."""
    if shown_at is not None and now - shown_at < SETTLED:
        raise TooSoon


def _text_to_sign(claim_id: UUID, shown_at: str, seen: Sequence[str]) -> str:
    return " ".join([str(claim_id), shown_at, *sorted(seen)])

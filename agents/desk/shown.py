"""A signed record of what a screen showed and when, which each outcome sends back.

Without it, the second press of a double click would decide about the next customer, whom nobody has called.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from codservice.accounts.models import User
from codservice.errors import Refused

SETTLED = timedelta(seconds=1)  # a screen's age before it may be pressed; its script waits as long
SETTLED_MS = int(SETTLED.total_seconds() * 1000)
_SIGNER = "agents.desk.shown"


class TooSoon(Refused):
    """The screen was shown too recently for anybody to have read whose it is."""

    code, status = "too_soon", 409

    def __init__(self) -> None:
        super().__init__(_("This customer has only just appeared. Check who it is, then press again."))


def seal(claim_id: UUID, shown_at: str, seen: Sequence[str]) -> str:
    """Sign the claim, the time and the orders with their versions, as the form sends them."""
    return Signer(salt=_SIGNER).signature(_sealed(claim_id, shown_at, seen))


def is_sealed(claim_id: UUID, shown_at: str, seen: Sequence[str], sealed: str) -> bool:
    try:
        Signer(salt=_SIGNER).unsign(f"{_sealed(claim_id, shown_at, seen)}:{sealed}")
    except BadSignature:
        return False
    return True


def drafts_of(agent: User) -> str:
    """The prefix of the agent's draft names, so that colleagues at the same computer see none of them."""
    return salted_hmac("agents.desk.drafts", str(agent.pk), algorithm="sha256").hexdigest()[:8]


def draft_of(phone_e164: str, agent: User) -> str:
    """The name under which the agent's browser keeps a draft note about this customer. It hides the number."""
    return drafts_of(agent) + salted_hmac("agents.desk.draft", phone_e164, algorithm="sha256").hexdigest()[:16]


def check_age(shown_at: datetime | None, now: datetime) -> None:
    """Raises TooSoon. Both times are the database's; `shown_at` is None when no screen was pressed."""
    if shown_at is not None and now - shown_at < SETTLED:
        raise TooSoon


def _sealed(claim_id: UUID, shown_at: str, seen: Sequence[str]) -> str:
    return " ".join([str(claim_id), shown_at, *sorted(seen)])

"""The security log: who signed in or tried to, and who gave, took or changed access, or tried to. For merchants'
people, also every change on the account's pages.

Each entry is a row of `SecurityEntry`, in the transaction of what it is about, and a log line after the commit. Account
holders read what concerns their account, operators everything; nobody changes entries. `note` writes both. Sign-ins and
changes of groups come through Django's signals, however they are made.
"""

import logging
import sys
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.db import models, transaction
from django.db.models.signals import m2m_changed
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice import logs, postgresql, ratelimit
from codservice.retention import old_rows

if TYPE_CHECKING:  # which write this log themselves
    from codservice.accounts.models import Account, User

logger = logging.getLogger("codservice.security")

forget_old = old_rows("accounts_securityentry", "security_entries", timedelta(days=365), at="created_at")
# Refused sign-ins are counted by person, address and hour, so that a flood does not fill the table. Addresses beyond
# this number are counted together, under an empty one.
MOST_ADDRESSES = 100


class Action(models.TextChoices):
    LOGIN = "login", _("signed in")
    PASSWORD = "password", _("changed the password")
    RESET = "password_reset", _("set a new password")
    CODES_ON = "codes_on", _("turned one-time codes on")
    CODES_OFF = "codes_off", _("turned one-time codes off")
    PERSON_MADE = "person_made", _("added a person")
    PERSON = "person_changed", _("changed a sign-in")
    ACCOUNT = "account_changed", _("changed an account")
    DEACTIVATED = "deactivated", _("deactivated")
    REACTIVATED = "reactivated", _("reactivated")
    ROLE = "role", _("changed a role")
    KEY_MADE = "key_made", _("created an API key")
    KEY_REVOKED = "key_revoked", _("revoked an API key")
    EXPORTED = "exported", _("exported data")
    ERASED = "erased", _("erased a customer")
    WEBHOOK_MADE = "webhook_made", _("registered a webhook")
    WEBHOOK_CHANGED = "webhook_changed", _("changed a webhook")
    WEBHOOK_ROTATED = "webhook_rotated", _("rotated a signing secret")
    WEBHOOK_DELETED = "webhook_deleted", _("deleted a webhook")
    WEBHOOK_TESTED = "webhook_tested", _("sent a test event")
    WEBHOOK_RECOVERED = "webhook_recovered", _("recovered what a webhook had missed")
    RESENT = "deliveries_resent", _("sent deliveries again")
    ORDER_WRITTEN = "order_written", _("created an order")
    ORDER_CORRECTED = "order_corrected", _("corrected an order")
    ORDER_CANCELED = "order_canceled", _("canceled an order")
    UPLOADED = "uploaded", _("imported a file")
    UPLOAD_STOPPED = "upload_stopped", _("stopped an upload")
    ROWS_DISCARDED = "rows_discarded", _("discarded refused rows of a file")
    FEES = "fees", _("changed shipping fees")
    PRODUCT = "product", _("changed a product")
    RULES = "calling_rules", _("changed calling rules")
    SCRIPT = "call_script", _("changed the call script")
    ASSIGNED = "assigned", _("changed whom an agent serves")
    INVITED = "invited", _("invited")
    INVITED_AGAIN = "invited_again", _("sent an invitation again")
    UNINVITED = "uninvited", _("withdrew an invitation")
    JOINED = "joined", _("joined by invitation")
    REMOVED = "removed", _("removed a colleague")
    LEFT = "left", _("left the team")
    HANDED_OVER = "handed_over", _("handed the account over")
    SESSIONS = "sessions_ended", _("ended sessions")


class Outcome(models.TextChoices):
    DONE = "done", _("done")
    REFUSED = "refused", _("refused")


class By(models.TextChoices):
    """What kind of actor it was."""

    PERSON = "person", _("who works for the account")
    STAFF = "staff", _("who works here")
    KEY = "key", _("an API key")
    COMMAND = "command", _("a command")
    STRANGER = "stranger", _("somebody who is not signed in")


# --- The actor -------------------------------------------------------------------------------------------------------

_request: ContextVar[HttpRequest | None] = ContextVar("request", default=None)


def begin(request: HttpRequest) -> None:
    """Attribute what this thread notes from now on to this request."""
    _request.set(request)


def end() -> None:
    _request.set(None)


class _Asker(NamedTuple):
    by: By
    name: str
    id: UUID | None


def _asker(person: "User | None") -> _Asker:
    """The given person, or whoever makes the request; outside of requests, the running program."""
    request = _request.get()
    user = person or getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return _Asker(By.STAFF if user.is_staff else By.PERSON, user.username, user.pk)
    if key := getattr(request, "api_key", None):
        return _Asker(By.KEY, key.name, key.id)
    if request:
        return _Asker(By.STRANGER, "", None)
    return _Asker(By.COMMAND, " ".join([_program(), *sys.argv[1:2]]), None)


def _program() -> str:
    """`manage.py`, or for `python -m` the module, since the file name alone says little."""
    if spec := getattr(sys.modules["__main__"], "__spec__", None):
        return str(spec.name).removesuffix(".__main__")
    return Path(sys.argv[0]).name


def _address() -> str:
    request = _request.get()
    return ratelimit.client_address(request)[:64] if request else ""


# --- Writing entries -------------------------------------------------------------------------------------------------

_INSERT = """
INSERT INTO accounts_securityentry
    (id, created_at, action, outcome, by, actor, actor_id, target, target_id, account_id, address, count)
VALUES (%(id)s, now(), %(action)s, 'done', %(by)s, %(actor)s, %(actor_id)s, %(target)s, %(target_id)s, %(account_id)s,
    %(address)s, 1)
"""


def note(
    action: Action,
    *,
    target: str,
    target_id: UUID | None = None,
    account_id: UUID | None = None,
    person: "User | None" = None,
) -> None:
    """Note that somebody did this, in the transaction in which they did it. `target` is its name for people.

    The actor is `person` or whoever makes the request. The holder of `account_id` can read the entry.
    """
    asker = _asker(person)
    entry = {
        "id": uuid7(), "action": action.value, "by": asker.by.value, "actor": asker.name[:255], "actor_id": asker.id,
        "target": target[:255], "target_id": target_id, "account_id": account_id, "address": _address(),
    }  # fmt: skip
    with transaction.atomic():
        postgresql.execute(_INSERT, entry)
        transaction.on_commit(lambda: _log(logging.INFO, entry | {"outcome": Outcome.DONE.value}))


def note_person(action: Action, user: "User", *, target: str = "", person: "User | None" = None) -> None:
    """Like `note`, about a person's sign-in, password, codes or role. The holder of their account can read it."""
    account_id = _account_of(user)
    note(action, target=target or user.username, target_id=user.pk, account_id=account_id, person=person)


def note_account(action: Action, account: "Account", *, target: str = "") -> None:
    """Like `note`, about an account as a whole."""
    note(action, target=target or account.name, target_id=account.pk, account_id=account.pk)


def _account_of(user: "User") -> UUID | None:
    if account := getattr(user, "account", None):
        return account.pk
    return getattr(getattr(user, "membership", None), "account_id", None)


# A typed name is kept only if such a person exists, because it may be a password. One statement, the same for known and
# unknown names.
_INSERT_REFUSED = """
WITH known AS (
    SELECT u.id, u.username, coalesce(a.id, m.account_id) AS account_id
    FROM accounts_user u LEFT JOIN accounts_account a ON a.holder_id = u.id
        LEFT JOIN accounts_membership m ON m.user_id = u.id
    WHERE u.username = %(username)s
), tried AS (
    SELECT coalesce(known.username, '') AS target, known.id AS target_id, known.account_id,
        date_trunc('hour', now()) AS hour
    FROM (VALUES (1)) one LEFT JOIN known ON true
)
INSERT INTO accounts_securityentry AS entry
    (id, created_at, action, outcome, by, actor, target, target_id, account_id, address, count, hour)
SELECT %(id)s, now(), %(action)s, 'refused', 'stranger', '', target, target_id, account_id,
    CASE WHEN EXISTS (
            SELECT FROM accounts_securityentry e WHERE (e.hour, e.target, e.address) = (t.hour, t.target, %(address)s)
        ) OR %(most)s > (SELECT count(*) FROM accounts_securityentry e WHERE e.hour = t.hour AND e.target = t.target)
        THEN %(address)s ELSE '' END,
    1, hour
FROM tried t
ON CONFLICT (hour, target, address) WHERE hour IS NOT NULL
    DO UPDATE SET count = entry.count + 1, last_at = now()
RETURNING target, target_id, account_id
"""


def note_refused_login(username: str) -> None:
    """Note a refused attempt to sign in under this name."""
    entry: dict[str, Any] = {"id": uuid7(), "action": Action.LOGIN.value, "address": _address()}
    entry["target"], entry["target_id"], entry["account_id"] = postgresql.row(
        _INSERT_REFUSED, entry | {"username": username, "most": MOST_ADDRESSES}
    )
    _log(logging.WARNING, entry | {"outcome": Outcome.REFUSED.value, "by": By.STRANGER.value})


def _log(level: int, entry: dict[str, Any]) -> None:
    """Write one log line, with names as well as ids: whoever reads it in an alert has no database at hand."""
    fields = {name: entry.get(name) for name in ("action", "outcome", "by", "actor", "target", "address")}
    ids = {name: entry.get(name) for name in ("actor_id", "target_id", "account_id")}
    extra = {name: logs.redacted(value) for name, value in fields.items() if value}
    logger.log(level, "security", extra=extra | {name: str(value) for name, value in ids.items() if value})


# --- Django's signals ------------------------------------------------------------------------------------------------


def connect(user_model: type["User"]) -> None:
    """Listen for sign-ins, and for changes to what people and groups may do."""
    groups = user_model.groups
    permissions = groups.rel.model.permissions
    on_groups, on_permissions = partial(_note_role, "username", "name"), partial(_note_role, "name", "codename")
    user_logged_in.connect(_on_login)
    user_login_failed.connect(_on_refused_login)
    m2m_changed.connect(on_groups, sender=groups.through, weak=False)
    m2m_changed.connect(on_permissions, sender=permissions.through, weak=False)


def _on_login(user: "User", **kwargs: Any) -> None:
    note_person(Action.LOGIN, user, person=user)


def _on_refused_login(credentials: dict[str, Any], **kwargs: Any) -> None:
    note_refused_login(str(credentials.get("username", "")))


def _note_role(
    holder: str, given: str, *, instance: Any, action: str, reverse: bool, model: Any, pk_set: Any, **kwargs: Any
) -> None:
    """Note `samira: +Supervisors`, whichever side of the relation was changed."""
    sign = {"post_add": "+", "post_remove": "-", "pre_clear": "-"}.get(action)
    if sign is None or pk_set == set():
        return
    own = getattr(instance, given if reverse else holder)
    names = model.objects.filter(pk__in=pk_set or ()).values_list(holder if reverse else given, flat=True)
    others = ", ".join(sorted(names)) or "all"
    target = f"{others}: {sign}{own}" if reverse else f"{own}: {sign}{others}"
    note(Action.ROLE, target=target, target_id=instance.pk if isinstance(instance.pk, UUID) else None)

import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Lower, Now
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice.accounts import security_log
from codservice.accounts.key_format import LIVE, TEST, digest_of, make_key
from codservice.accounts.security_log import Action, By, Outcome
from codservice.errors import Refused
from codservice.i18n_tags import listed

# What keys may do, in the words of docs/authentication.md.
SCOPES = {
    "orders:read": _("list and read orders, read shipping fees"),
    "orders:write": _("import, change and cancel orders, set shipping fees"),
    "inventory:read": _("read the stock of all products"),
    "inventory:write": _("set stock"),
    "products:read": _("list and read products"),
    "products:write": _("add and change products"),
    "webhooks:read": _("list webhooks and their deliveries"),
    "webhooks:write": _("register, change, ping, recover and delete webhooks, rotate their secret, resend deliveries"),
    "events:read": _("read the feed of events"),
}

# Name → what to do with things that a person holds when they are shut out, in the same transaction. Apps add theirs
# when they are ready.
LEFT_BEHIND: dict[str, "Callable[[User], object]"] = {}


def all_scopes() -> list[str]:
    return list(SCOPES)


def unknown_password() -> str:
    """The hash of a password that nobody knows. It is deliberately slow, so make it before anything is locked."""
    return make_password(secrets.token_urlsafe(32))


class PersonChanged(Refused):
    """A person's password, or whether they may sign in, has changed since somebody set out to change it."""

    code, status = "person_changed", 409
    message = _("This account has changed since you opened the page. Nothing was done.")


class User(AbstractUser):
    """A person who signs in: an account's holder or a colleague (whose username is the e-mail address), an agent or an
    operator."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # Somebody else made the password and has seen it, so the person must choose their own before doing anything.
    has_one_time_password = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        verbose_name = _("person")
        verbose_name_plural = _("people")
        constraints = [
            # With one address, two holders could not both reset their password.
            models.UniqueConstraint(Lower("email"), condition=~Q(email=""), name="one_user_per_email"),
        ]

    @classmethod
    def meant_by(cls, typed: str) -> "User | None":
        """The person who signs in with this username or e-mail address; a username goes before an address.

        If there is none, whoever has this username in another case, which lets nobody in: `signs_in_as` tells.
        One query, known or not. It reads all people, in far less time than a password takes to hash.
        """
        lower = typed.lower()
        by_name = Q(username=typed) | Q(name=lower)  # PostgreSQL and Python lower some letters differently
        address = Q(address=lower) & ~Q(email="")
        found = cls.objects.alias(name=Lower("username"), address=Lower("email")).filter(by_name | address)
        return max(found, key=lambda person: (person.username == typed, person.signs_in_as(typed)), default=None)

    def signs_in_as(self, typed: str) -> bool:
        """Whether the person signs in with it: their username, or their e-mail address in any case."""
        return typed == self.username or (self.email != "" and typed.lower() == self.email.lower())

    @classmethod
    def with_name(cls, name: str) -> "models.QuerySet[User]":
        """Whoever has this username or e-mail address, in any case. For a new name or address, nobody else may have it.

        A username that is another's address would keep them from signing in with it.
        """
        return cls.objects.filter(Q(username__iexact=name) | Q(email__iexact=name))

    def deactivate(self, password: str | None = None) -> None:
        """Bar the person from signing in. Sessions and mailed links end for good: they would need a new password.

        If they hold an account, its keys stop working until they are reactivated or the keys revoked. A caller that
        holds locks gives an `unknown_password()` that it made before.
        """
        password = password or unknown_password()
        with transaction.atomic():
            self.shut_out(password)
            security_log.note_person(Action.DEACTIVATED, self)

    def shut_out(self, password: str) -> None:
        """Like `deactivate`, with the caller's `unknown_password()`. The caller also writes the security log."""
        self.is_active, self.password = False, password
        self.save(update_fields=["is_active", "password"])
        for release in LEFT_BEHIND.values():
            release(self)

    def replace_password(self, hashed: str, **fields: Any) -> None:
        """Write a new password's hash, and `fields` with it, unless the password has changed since it was read.

        Raises PersonChanged if it has: it was reset, or the person shut out, and an older request must not undo that.
        """
        as_known = User.objects.filter(pk=self.pk, password=self.password)
        if not as_known.update(password=hashed, **fields):
            raise PersonChanged
        self.password = hashed

    def check_password(self, raw_password: str) -> bool:
        """Like Django's, which rehashes a password hashed in an older way, but never overwrites a newer password."""

        def hash_anew(raw_password: str) -> None:
            with suppress(PersonChanged):
                self.replace_password(make_password(raw_password))

        return check_password(raw_password, self.password, hash_anew)

    @property
    def display_name(self) -> str:
        """The name that histories keep, cut to their columns' 255 characters; first and last name may have 150 each."""
        return (self.get_full_name() or self.username)[:255]


class Account(models.Model):
    """A merchant. Everything that the API shows or changes belongs to exactly one.

    The holder is responsible for it, and its keys work only while both are active. An account may have a twin for
    tests, with its own orders, products, webhooks and keys. The twin has no holder of its own: its keys work while
    those of the `live` account would.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=255)
    holder = models.OneToOneField(User, on_delete=models.PROTECT, null=True, blank=True, related_name="account")
    live = models.OneToOneField(
        "self",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        editable=False,
        related_name="twin",
        help_text="Of a twin for tests: whose it is.",
    )
    rate_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Requests per minute and API key; empty: the deployment's own."
    )
    is_active = models.BooleanField(default=True, help_text="The keys of an inactive account stop working.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("merchant")
        verbose_name_plural = _("merchants")
        constraints = [
            models.CheckConstraint(
                condition=Q(holder__isnull=False, live__isnull=True) | Q(holder__isnull=True, live__isnull=False),
                name="account_has_holder_or_is_twin",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def lock(cls, account_id: UUID) -> "Account":
        """The account, locked until the transaction ends, for what must be counted or made for it one at a time."""
        return cls.objects.select_for_update(no_key=True).get(id=account_id)

    @transaction.atomic
    def ensure_twin(self) -> "Account":
        """The twin of this live account, made if there is none yet."""
        # Renaming an account renames its twin too, so its name is read under the lock.
        live = Account.lock(self.pk)
        return Account.objects.get_or_create(live=live, defaults={"name": live.name})[0]

    @property
    def mode(self) -> str:
        """LIVE or TEST."""
        return LIVE if self.live_id is None else TEST

    @property
    def live_account(self) -> "Account":
        """This account or, if this is a twin, the one whose twin it is."""
        return self.live or self

    @property
    def is_closed(self) -> bool:
        """Whether this live account can no longer be changed. Its keys do not work then."""
        return not (self.is_active and self.holder.is_active)


def account_column(**options: Any) -> "models.ForeignKey[Account, Account]":
    """A row's account column. Every table of merchants' data has one, so that rows can be partitioned by it.

    It has no database constraint; another foreign key of the row, such as its order's, guarantees it.
    """
    return models.ForeignKey(
        Account, on_delete=models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False, **options
    )


# --- The people of an account --------------------------------------------------------------------------------------


class Membership(models.Model):
    """A person who works for a merchant besides the account's holder. Each person works for one merchant at most."""

    class Role(models.TextChoices):
        MANAGER = "manager", _("Manager")
        READER = "reader", _("Read only")

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="memberships")
    user = models.OneToOneField(User, on_delete=models.PROTECT, related_name="membership")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(db_default=Now())


class Invitation(models.Model):
    """An address that the holder has invited.

    `digest` is for the version before, whose links were tokens: of such a token, or of the id. The next can drop it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="invitations", db_index=False)
    email = models.EmailField()
    role = models.CharField(max_length=16, choices=Membership.Role.choices)
    digest = models.BinaryField(max_length=32, unique=True, null=True)
    created_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "email"], name="one_invitation_per_address")]


class SignIn(models.Model):
    """Where a person is signed in: what they can see about one of their sessions."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_ins")
    session_key = models.CharField(max_length=40)
    device = models.CharField(max_length=64)
    address = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # `unique=True` would add an index for LIKE.
            models.UniqueConstraint(fields=["session_key"], name="accounts_signin_session_key_key")
        ]


# --- API keys and the security log -----------------------------------------------------------------------------------

MOST_WORKING_KEYS = 20  # per account


class TooManyKeys(Refused):
    code = "too_many_keys"


class NameTaken(Refused):
    code = "name_taken"


class ApiKey(models.Model):
    """A merchant's API key. The key itself is shown once, when it is made, and never stored."""

    WORKS = Q(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None)  # provided that its account is not closed
    ENDS_SOON = timedelta(days=7)  # how long before its end the merchant hears of it
    USED = timedelta(days=30)  # a key that was last used longer ago is no longer in use

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, help_text="The key's first 12 characters, to tell keys apart.")
    digest = models.BinaryField(max_length=32, unique=True)
    scopes = ArrayField(models.CharField(max_length=20), default=all_scopes)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    is_end_told = models.BooleanField(default=False, db_default=False)  # the holder was mailed that it ends soon

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @classmethod
    def issue(
        cls,
        account: Account,
        *,
        name: str,
        scopes: list[str] | None = None,
        expires_at: datetime | None = None,
        is_test: bool = False,
        once: bool = False,
    ) -> tuple["ApiKey", str]:
        """Make a key. Returns its row, and the key itself, which cannot be shown again.

        `is_test` makes a key of the account's twin, and the twin if there is none yet. Raises TooManyKeys when
        MOST_WORKING_KEYS of the account's keys are neither revoked nor expired. With `once`, also raises NameTaken when
        one of these has this name.
        """
        with transaction.atomic():
            if is_test and account.mode == LIVE:
                account = account.ensure_twin()
            Account.lock(account.pk)
            working = cls.objects.filter(cls.WORKS, account=account)
            if once and working.filter(name=name).exists():
                text = gettext(
                    "A working key already has this name. If you have just created it and did not copy it, "
                    "revoke it and create it again. Otherwise, choose another name."
                )
                raise NameTaken(text)
            if working.count() >= MOST_WORKING_KEYS:
                text = gettext(
                    "The account has %(most)d working keys, which is the maximum. Its holder has to revoke one first."
                )
                raise TooManyKeys(text % {"most": MOST_WORKING_KEYS})
            key = make_key(account.mode)
            row = cls.objects.create(
                account=account,
                name=name,
                prefix=key[: cls._meta.get_field("prefix").max_length],
                digest=digest_of(key),
                scopes=all_scopes() if scopes is None else [*dict.fromkeys(scopes)],
                expires_at=expires_at,
            )
            security_log.note(Action.KEY_MADE, target=str(row), target_id=row.id, account_id=account.id)
        return row, key

    @classmethod
    def in_use(cls) -> models.QuerySet["ApiKey"]:
        """The keys that something uses, ended ones too. A revoked key was ended on purpose."""
        return cls.objects.filter(revoked_at=None, last_used_at__gt=Now() - cls.USED).defer("digest")

    def revoke(self) -> None:
        """Revoke the key for good. Revoking it again changes nothing."""
        with transaction.atomic():
            if type(self).objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=Now()):
                security_log.note(Action.KEY_REVOKED, target=str(self), target_id=self.id, account_id=self.account_id)


# The searchable words of an entry. Separators become spaces, or PostgreSQL would take an address, a path or a signed
# number for one word.
LOG_WORDS = models.Func(
    "actor",
    "target",
    "address",
    arg_joiner=" || ' ' || ",
    template="to_tsvector('simple', translate(%(expressions)s, './@:_&?=<>+-→', '             '))",
    output_field=SearchVectorField(),
)


# Roles and rights as the log has them → as people read them.
_ROLES: dict[str, Any] = {
    "is_superuser": _("Operator"),
    "is_staff": _("Works in the console"),
    "Agents": _("Agents"),
    "Supervisors": _("Supervisors"),
    **dict(Membership.Role.choices),
}
_TELL_OF_ROLES = (Action.ROLE, Action.INVITED, Action.INVITED_AGAIN, Action.UNINVITED)


class SecurityEntry(models.Model):
    """An entry of the security log, written by `security_log` and never changed.

    Actor and target are names as they were, and ids without constraints: the entry outlives what it is about.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(db_default=Now())
    action = models.CharField(max_length=32)
    outcome = models.CharField(max_length=16)
    by = models.CharField(max_length=16)
    actor = models.CharField(max_length=255, blank=True)
    actor_id = models.UUIDField(null=True, blank=True)
    target = models.CharField(max_length=255, blank=True)
    target_id = models.UUIDField(null=True, blank=True)
    account = models.ForeignKey(
        Account, null=True, blank=True, on_delete=models.CASCADE, related_name="security_entries", db_index=False
    )
    address = models.CharField(max_length=64, blank=True)
    count = models.PositiveIntegerField(default=1, help_text="How often, from created_at to last_at.")
    last_at = models.DateTimeField(null=True, blank=True)
    hour = models.DateTimeField(null=True, blank=True, help_text="Of refused sign-ins, which are counted by the hour.")

    class Meta:
        verbose_name = _("entry of the security log")
        verbose_name_plural = _("security log")
        constraints = [
            # Refused sign-ins are counted in one entry. Also finds how many addresses a person has in the hour.
            models.UniqueConstraint(
                fields=["hour", "target", "address"],
                condition=Q(hour__isnull=False),
                name="one_entry_per_refused_login",
            ),
        ]
        indexes = [
            # For the account's page.
            models.Index(
                fields=["account", "-created_at", "-id"],
                condition=Q(account__isnull=False),
                name="security_of_account",
            ),
            # For the operators' list and for deleting old entries.
            models.Index(fields=["-created_at", "-id"], name="security_by_time"),
            # The same, filtered by action or to what was refused.
            models.Index(fields=["action", "-created_at", "-id"], name="security_by_action"),
            models.Index(fields=["-created_at", "-id"], condition=Q(outcome="refused"), name="security_refused"),
            # For the operators' search.
            GinIndex(LOG_WORDS, gin_pending_list_limit=512, name="security_by_words"),
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()}{gettext(':')} {self.target_display}"

    @property
    def is_of_order(self) -> bool:
        """Whether the target is an order."""
        return self.action.startswith("order_") and self.target_id is not None

    def get_action_display(self) -> str:
        return str(Action(self.action).label) if self.action in Action.values else self.action

    @property
    def target_display(self) -> str:
        """The target with its role in words: `samira: +Supervisors`, `sami@example.dz (manager)`."""
        if self.action not in _TELL_OF_ROLES:
            return self.target
        before, after = (": ", "") if self.action == Action.ROLE else (" (", ")")
        who, found, what = self.target.removesuffix(after).rpartition(before)
        if not found:
            return self.target
        sign = what[:1] if what.startswith(("+", "-")) else ""
        roles = what.removeprefix(sign).split(", ")
        return f"{who}{before}{sign}{listed(_ROLES.get(role, role) for role in roles)}{after}"

    def get_outcome_display(self) -> str:
        return str(Outcome(self.outcome).label) if self.outcome in Outcome.values else self.outcome

    def get_by_display(self) -> str:
        return str(By(self.by).label) if self.by in By.values else self.by

"""Sessions: how long they last, where a merchant's people are signed in, and how sessions end.

They last twelve hours; for staff, no more than half an hour without activity. A session is Django's row, with a
`SignIn` beside it that says whose it is. The store keeps the two together.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.db import OperationalError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from uuid_utils.compat import uuid7

from codservice import postgresql, ratelimit
from codservice.accounts.models import SignIn, User
from codservice.retention import old_rows

_SEEN_AT = "seen_at"  # in staff's sessions: their last activity, in seconds since 1970
_NOTED_AT = "noted_at"  # in others' sessions, as they are read: when their sign-in was last noted
_NOTED_EVERY = 60  # seconds; sessions and sign-ins are rows, so not written for every page

View = Callable[..., HttpResponse]


_KEY = re.compile("[0-9a-z]{32}")  # Django's format; a cookie may hold anything
_LOAD = """
SELECT session_data, EXTRACT(EPOCH FROM statement_timestamp())::bigint, EXTRACT(EPOCH FROM seen_at)::bigint
FROM django_session LEFT JOIN accounts_signin USING (session_key)
WHERE session_key = %s AND expire_date > statement_timestamp()
"""


class SessionStore(db.SessionStore):
    """Django's store, in which a session that gets a new key stays the same sign-in."""

    @cached_property
    def now(self) -> int:
        """When the session was read, in seconds since 1970, by the database's clock.

        The clocks of web hosts may differ by more than the idle limit."""
        return int(postgresql.row("SELECT EXTRACT(EPOCH FROM statement_timestamp())::bigint")[0])

    @property
    def loaded(self) -> dict[str, Any]:
        """The session's contents if they have been read; otherwise empty, also when they cannot be read."""
        return getattr(self, "_session_cache", {})

    def load(self) -> dict[str, Any]:
        """Read the session by our own statement: every page needs it, and Django would build one each time."""
        found = None
        if _KEY.fullmatch(self.session_key):
            found = postgresql.row(_LOAD, [self.session_key])
        if found is None:
            self._session_key = None
            return {}
        data, self.now, noted_at = self.decode(found[0]), found[1], found[2]
        return data if noted_at is None else data | {_NOTED_AT: noted_at}

    def save(self, must_create: bool = False) -> None:
        """Save nothing while the database does not take it, so that signed-in people can still read."""
        try:
            super().save(must_create)
        except UpdateError as error:
            if not isinstance(error.__context__, OperationalError):
                raise  # the session was ended meanwhile

    def cycle_key(self) -> None:
        before = self.session_key
        super().cycle_key()
        if before:
            SignIn.objects.filter(session_key=before).update(session_key=self.session_key)


def by_itself(view: View) -> View:
    """Marks a view that a page requests by itself, even when nobody is there."""
    view.is_asked_by_itself = True  # type: ignore[attr-defined]
    return view


def signed_in(request: HttpRequest, user: User, **kwargs: Any) -> None:
    """A receiver of `user_logged_in`."""
    if user.is_staff:
        begin(request.session)
    else:
        see(request, user)


def begin(session: SessionStore) -> None:
    """Start a staff session. However often it is written from now on, it ends when it would have anyway."""
    session[_SEEN_AT] = session.now
    _end_in_time(session)


def _end_in_time(session: SessionStore) -> None:
    session.set_expiry(datetime.fromtimestamp(session.now + settings.SESSION_COOKIE_AGE, UTC))


def is_idle(session: SessionStore, view: View) -> bool:
    """Whether a staff session was idle for too long. If not, and a person requested `view`, note the activity."""
    if _SEEN_AT not in session:
        begin(session)
    idle = session.now - session[_SEEN_AT]
    if _NOTED_EVERY <= idle <= settings.STAFF_IDLE_SECONDS and not hasattr(view, "is_asked_by_itself"):
        session[_SEEN_AT] += idle
    return idle > settings.STAFF_IDLE_SECONDS


# --- Sign-ins --------------------------------------------------------------------------------------------------------

_NOTE = """
INSERT INTO accounts_signin (id, user_id, session_key, device, address, created_at, seen_at)
VALUES (%s, %s, %s, %s, %s, now(), now())
ON CONFLICT (session_key) DO UPDATE SET address = excluded.address, device = excluded.device, seen_at = now()
"""
# As browsers and systems name themselves. The first match wins, since many name others too.
_BROWSERS = {
    "Edge": r"Edge?/|EdgA/|EdgiOS/", "Opera": r"OPR/|Opera", "Samsung Internet": r"SamsungBrowser/",
    "Firefox": r"Firefox/|FxiOS/", "Chrome": r"Chrome/|CriOS/", "Safari": r"Safari/",
}  # fmt: skip
_SYSTEMS = {
    "Android": r"Android", "iPhone": r"iPhone", "iPad": r"iPad", "Windows": r"Windows", "macOS": r"Mac OS X|Macintosh",
    "ChromeOS": r"CrOS", "Linux": r"Linux",
}  # fmt: skip


def see(request: HttpRequest, user: User) -> None:
    """Note where a merchant's person is signed in, at most once a minute.

    Only the first note changes the session. It is written as a whole, so another would undo what a page that is
    answered at the same time changes there, such as the mode.
    """
    session = request.session
    if session.session_key is None or session.now - session.get(_NOTED_AT, 0) < _NOTED_EVERY:
        return
    if _NOTED_AT not in session:
        _end_in_time(session)
        session[_NOTED_AT] = session.now
    device, address = device_of(request.headers.get("User-Agent", "")), ratelimit.client_address(request)[:64]
    with suppress(OperationalError):  # read-only database
        postgresql.execute(_NOTE, [uuid7(), user.pk, session.session_key, device, address])


def device_of(user_agent: str) -> str:
    """The browser's and system's names if known, such as “Firefox, Windows”; otherwise empty."""
    named = [
        next((name for name, pattern in known.items() if re.search(pattern, user_agent)), "")
        for known in (_BROWSERS, _SYSTEMS)
    ]
    return ", ".join(filter(None, named))


def of_person(user: User) -> QuerySet[SignIn]:
    """The person's usable sessions, the last seen first."""
    usable = Session.objects.filter(expire_date__gt=Now())
    return SignIn.objects.filter(user=user, session_key__in=usable.values("session_key")).order_by("-seen_at", "-id")


def end(user: User, *, only: UUID | None = None, but: str | None = None) -> int:
    """End all sessions of a person, or the `only` one, or all `but` the one with this key. Returns how many.

    It takes effect at once: further requests with such a session are a stranger's."""
    with transaction.atomic():
        ended = of_person(user).exclude(session_key=but or "")
        keys = list((ended.filter(pk=only) if only else ended).values_list("session_key", flat=True))
        if user.is_staff and not only:
            keys += [key for key in _of_staff(user) if key != but]
        Session.objects.filter(session_key__in=keys).delete()
        user.sign_ins.filter(session_key__in=keys).delete()
    return len(keys)


def _of_staff(user: User) -> list[str]:
    """The keys of the usable sessions of a member of staff. They have no sign-ins, so all sessions without are read."""
    usable = Session.objects.filter(expire_date__gt=Now())
    without = usable.exclude(session_key__in=SignIn.objects.values("session_key"))
    return [each.session_key for each in without.iterator() if each.get_decoded().get(SESSION_KEY) == str(user.pk)]


# --- Deleting expired sessions ---------------------------------------------------------------------------------------


_forget_sessions = old_rows("django_session", "sessions", timedelta(), at="expire_date", key="session_key")


def forget_expired(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete expired sessions. A sweep of `codservice.retention`; `before` is not used."""
    yield from _forget_sessions(before, dry_run=dry_run)
    if dry_run:
        return
    # Rows whose session has ended in any way. A sign-in whose session is just changing its key is younger.
    postgresql.execute(
        "DELETE FROM accounts_signin s WHERE created_at < now() - interval '1 day'"
        " AND NOT EXISTS (SELECT FROM django_session d WHERE d.session_key = s.session_key)"
    )

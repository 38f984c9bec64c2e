"""Colleagues of an account: invited by mail with a role, managed by the holder; and what each of them may do."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from smtplib import SMTPRecipientsRefused, SMTPSenderRefused
from typing import Any

import pytest
from celery.exceptions import Retry
from celery.result import EagerResult
from celery.signals import task_retry
from django.core import mail
from django.core.management import CommandError, call_command
from django.core.signing import Signer
from django.core.validators import validate_email
from django.db import DatabaseError, connection, connections, transaction
from django.db.models.functions import Now
from django.test import Client
from django.utils import translation
from django_otp.plugins.otp_totp.models import TOTPDevice
from kombu.exceptions import OperationalError

from codservice import mails
from codservice.accounts import team
from codservice.accounts.key_format import digest_of
from codservice.accounts.models import Account, ApiKey, Invitation, Membership, SecurityEntry, User
from codservice.accounts.tasks import WAITS, send_invitation, send_password_link
from tests import factories
from tests.factories import PASSWORD
from tests.harness.background import PATIENCE, Background, at_once, open_transaction
from tests.harness.client import browser_of
from tests.harness.database import one, wait_for_lock
from tests.harness.processes import free_port
from webhooks.models import Webhook

TEAM, LEAVE, NEW = "/account/team", "/account/team/leave", "battery staple 9"
pytestmark = pytest.mark.usefixtures("worker")


@pytest.fixture
def holder(alice: Account) -> Client:
    return browser_of(alice.holder)


@pytest.fixture
def member(alice: Account) -> Callable[..., User]:
    def make(role: str = "manager", name: str = "nadia") -> User:
        email = f"{name}@example.com"
        user = factories.UserFactory(username=email, email=email, first_name=name.title())
        Membership.objects.create(account=alice, user=user, role=role)
        return user

    return make


def invite(holder: Client, email: str = "nadia@example.com", role: str = "manager") -> Any:
    return holder.post(TEAM, {"email": email, "role": role})


def link() -> str:
    """Return the link of the newest mail, the same in each of its languages."""
    (path,) = set(re.findall(r"http://testserver(/account/invitation/\S+)", mail.outbox[-1].body))
    return path


def join(path: str, client: Client | None = None, **changes: str) -> Any:
    data = {"name": "Nadia Cherif", "new_password1": NEW, "new_password2": NEW, **changes}
    return (client or Client()).post(path, data)


def log(*actions: str) -> list[tuple[Any, ...]]:
    return list(
        SecurityEntry.objects.filter(action__in=actions).order_by("id").values_list("action", "actor", "target")
    )


# --- Inviting and coming in --------------------------------------------------------------------------------------


def test_an_invited_colleague_comes_in_with_a_password_and_a_role(alice: Account, holder: Client) -> None:
    assert invite(holder, "Nadia@Example.com").url == TEAM
    (sent,) = mail.outbox
    assert sent.to == ["nadia@example.com"]
    assert "nadia@example.com" in holder.get(TEAM).content.decode()
    page = Client().get(link()).content.decode()
    assert alice.name in page.replace("&#x27;", "'")
    assert "nadia@example.com" in page
    browser = Client()
    assert join(link(), browser).url == "/account/"
    assert browser.get("/account/orders").status_code == 200
    assert browser.get(TEAM).status_code == 403
    user = User.objects.get(email="nadia@example.com")
    assert (user.display_name, user.membership.role, user.membership.account) == ("Nadia Cherif", "manager", alice)
    assert not Invitation.objects.exists()
    assert Client().login(username="nadia@example.com", password=NEW)
    assert log("invited", "joined") == [
        ("invited", alice.holder.username, "nadia@example.com (manager)"),
        ("joined", "nadia@example.com", "nadia@example.com"),
    ]


def test_the_mail_speaks_three_languages(alice: Account, holder: Client) -> None:
    invite(holder)
    (sent,) = mail.outbox
    assert len(sent.subject) <= 78
    assert sent.message()["Auto-Submitted"] == "auto-generated"
    for language in ("fr", "ar-dz"):
        with translation.override(language):
            assert translation.gettext("Invitation to codservice") in sent.subject
            assert translation.gettext("If you did not expect this, do nothing: nobody gets in without this link.") in (
                sent.body
            )


def test_who_is_signed_in_reads_that_joining_signs_them_out(holder: Client) -> None:
    """Or a holder who checks the link would not see that the browser is their colleague's from then on."""
    User.objects.update(first_name="\u202eAlice", last_name="Benali")
    invite(holder)
    said = "You are signed in as Alice Benali. If you join, Alice Benali is signed out here."
    assert said in holder.get(link()).content.decode()
    assert "You are signed in as" not in Client().get(link()).content.decode()


def test_a_link_works_once(alice: Account, holder: Client) -> None:
    invite(holder)
    path = link()
    join(path)
    again = Client().get(path).content
    assert b"no longer works" in again
    assert b"If you have already joined, sign in" in again  # for someone who clicks in the old mail to come in
    assert b"no longer works" in join(path, name="Mallory").content
    assert User.objects.filter(first_name="Mallory").count() == 0


def test_a_link_works_for_a_week_or_when_it_is_sent_again_until_withdrawn(alice: Account, holder: Client) -> None:
    invite(holder)
    first, invitation = link(), Invitation.objects.get()
    Invitation.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert b"no longer works" in Client().get(first).content
    holder.post(f"/account/invitations/{invitation.id}/again")
    assert len(mail.outbox) == 2
    assert link() == first, "which of the mails they open does not matter"
    assert b"new_password1" in Client().get(first).content
    holder.post(f"/account/invitations/{invitation.id}/withdraw")
    assert b"no longer works" in join(first).content
    assert not Membership.objects.exists()
    assert [action for action, *_ in log("invited_again", "uninvited")] == ["invited_again", "uninvited"]


def test_what_is_kept_opens_nothing(alice: Account, holder: Client, django_assert_num_queries: Any) -> None:
    """Neither reading the database nor guessing lets anyone in. What we did not sign is not even looked up."""
    invite(holder)
    token, row = link().rpartition("/")[2], Invitation.objects.values().get()
    assert token not in map(str, row.values())
    for guess in ("x", str(row["id"]), Signer().sign(str(row["id"])), token[:-1] + "!", "a" * 43 + ":b"):
        with django_assert_num_queries(0):
            assert b"no longer works" in Client().get(f"/account/invitation/{guess}").content


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("deed", ["again", "withdraw"])
def test_an_invitation_that_somebody_else_is_just_withdrawing_is_not_found(
    deed: str, alice: Account, holder: Client
) -> None:
    """It may also be the same person, who has pressed twice."""
    invitation = team.invite(alice.id, email="nadia@example.com", role="reader")

    def press() -> int:
        try:
            return holder.post(f"/account/invitations/{invitation.id}/{deed}").status_code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            team.withdraw(alice.id, invitation.id)
            second = pool.submit(press)
            wait_for_lock()
        assert second.result(PATIENCE) == 404
    assert mail.outbox == []


def test_an_old_page_of_the_team_is_told_what_has_happened(
    alice: Account, holder: Client, member: Callable[..., User]
) -> None:
    """A press there comes too late: the invited person has joined, the colleague was removed."""
    invite(holder)
    invitation, colleague = Invitation.objects.get().id, member(name="karim").membership.id
    join(link())
    holder.post(f"/account/team/{colleague}/remove")
    for path, says in [
        (f"/account/invitations/{invitation}/again", "the person has joined, or it was withdrawn"),
        (f"/account/invitations/{invitation}/withdraw", "the person has joined, or it was withdrawn"),
        *((f"/account/team/{colleague}{what}", "is no longer on your team") for what in ("", "/remove", "/codes")),
    ]:
        answer = holder.post(path, {"role": "reader"})
        text = answer.content.decode()
        assert answer.status_code == 404
        assert says in text, path
        assert '<a class="button" href="/account/team">Team</a>' in text
    assert "is no longer on your team" in holder.get(f"/account/team/{colleague}/remove").content.decode()
    assert len(mail.outbox) == 1


def test_a_closed_account_lets_nobody_in(alice: Account, holder: Client) -> None:
    invite(holder)
    path = link()
    User.objects.filter(id=alice.holder_id).update(is_active=False)
    assert b"no longer works" in join(path).content
    assert not Membership.objects.exists()


def test_a_weak_password_and_no_name_are_refused(alice: Account, holder: Client) -> None:
    invite(holder)
    for changes in ({"new_password1": "12345678", "new_password2": "12345678"}, {"name": ""}, {"name": "a\x00"}):
        assert b'class="problem"' in join(link(), **changes).content
    assert not Membership.objects.exists()


def test_what_is_wrong_with_a_password_stands_where_it_was_chosen(alice: Account, holder: Client) -> None:
    invite(holder)
    for page, data in (
        (link(), {"name": "Nadia Cherif"}),
        ("/account/password", {"old_password": PASSWORD}),
    ):
        errors = holder.post(page, {**data, "new_password1": "12345678", "new_password2": "1"}).context["form"].errors
        assert "too common" in str(errors["new_password1"])
        assert "match" in str(errors["new_password2"])


@pytest.mark.parametrize("password", ["zoubida hamrouche", "nadia@example", "hamrouche9"])
def test_a_password_like_the_name_or_the_address_is_refused(password: str, alice: Account, holder: Client) -> None:
    invite(holder)
    typed = {"name": "Zoubida Hamrouche", "new_password1": password, "new_password2": password}
    (said,) = join(link(), **typed).context["form"].errors["new_password1"]
    assert said == "The password is too similar to the person’s name or to what they sign in with."
    assert not Membership.objects.exists()


@pytest.mark.parametrize("who", ["a merchant", "staff", "a colleague elsewhere", "somebody deactivated"])
def test_whoever_invites_learns_of_nobody_who_exists(
    who: str, alice: Account, charlie: Account, holder: Client
) -> None:
    """The page says the same for any address. Its owner reads in the mail why they cannot join."""
    email = charlie.holder.email
    if who != "a merchant":
        email = "samira@example.com"
        user = factories.UserFactory(username=email, email=email, is_staff=who == "staff")
        if who == "a colleague elsewhere":
            Membership.objects.create(account=charlie, user=user, role="reader")
        elif who == "somebody deactivated":
            User.objects.filter(id=user.id).update(is_active=False)
    pages = []
    for address in (email, "stranger@example.com"):
        response = holder.post(TEAM, {"email": address, "role": "reader"}, follow=True)
        text = re.sub(r'value="\w{64}"', "", response.content.decode()).replace(address, "ADDRESS")
        pages.append(re.sub(r"[0-9a-f-]{36}|<time.*</time>", "", text).splitlines())
        holder.post(f"/account/invitations/{Invitation.objects.get().id}/withdraw")
        holder.get(TEAM)
    assert [lines for lines in zip(*pages, strict=True) if lines[0] != lines[1]] == []
    theirs, strangers = mail.outbox
    assert "/account/invitation/" in strangers.body
    assert "/account/invitation/" not in theirs.body
    assert "This address is already used to sign in to codservice" in theirs.body


def test_an_address_that_came_to_sign_in_elsewhere_meanwhile_is_told_so(alice: Account, holder: Client) -> None:
    invite(holder)
    factories.AccountFactory(holder__username="nadia@example.com")
    answer = join(link())
    assert (answer.status_code, b"already signs in with this address" in answer.content) == (422, True)
    assert not Membership.objects.exists()


def test_who_is_invited_twice_can_be_written_to_again_where_the_page_says(alice: Account, holder: Client) -> None:
    invite(holder)
    before, said, _after = invite(holder).content.decode().partition("Send the invitation again above.")
    assert said
    assert f"/account/invitations/{Invitation.objects.get().id}/again" in before


def test_who_is_there_or_invited_is_not_invited_again(
    alice: Account, holder: Client, member: Callable[..., User]
) -> None:
    member(name="karim")
    invite(holder)
    for email in ("karim@example.com", alice.holder.email.upper(), "nadia@example.com", "no address"):
        assert invite(holder, email).status_code == 422
    assert invite(holder, "x@example.com", role="holder").status_code == 422
    assert Invitation.objects.count() == len(mail.outbox) == 1


def test_a_team_has_a_most(alice: Account, holder: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "MOST_PEOPLE", 1)
    invite(holder)
    text = invite(holder, "second@example.com").content.decode()
    assert "at most 1 colleagues and invitations besides the holder" in text


@pytest.mark.django_db(transaction=True)
def test_nobody_joins_while_those_who_are_there_and_those_who_are_invited_are_counted(
    alice: Account, holder: Client
) -> None:
    invite(holder)
    joining = link()
    with open_transaction(lambda: team.invite(alice.id, email="karim@example.com", role="reader")):
        joined = Background(lambda: join(joining))
        wait_for_lock()
        assert not alice.memberships.exists()
    assert joined.result().status_code == 302
    assert (alice.memberships.count(), alice.invitations.count()) == (1, 1)


def test_invitations_that_nobody_accepts_are_forgotten(alice: Account, holder: Client) -> None:
    for email in ("old@example.com", "over@example.com", "fresh@example.com"):
        invite(holder, email)
    Invitation.objects.filter(email="old@example.com").update(expires_at=Now() - timedelta(days=31))
    Invitation.objects.filter(email="over@example.com").update(expires_at=Now() - timedelta(days=29))
    call_command("prune", stdout=StringIO(), stderr=StringIO())
    assert set(Invitation.objects.values_list("email", flat=True)) == {"over@example.com", "fresh@example.com"}


def test_invitations_are_bounded_by_the_hour(alice: Account, holder: Client) -> None:
    invite(holder)
    again = f"/account/invitations/{Invitation.objects.get().id}/again"
    for _ in range(40):
        holder.post(again)
    assert len(mail.outbox) == 5, "of one address"
    assert b"new_password1" in Client().get(link()).content, "the last of them works"
    refused = invite(holder, "second@example.com")
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 3600
    assert Invitation.objects.count() == 1


def test_an_invitation_that_is_not_mailed_says_so(alice: Account, holder: Client) -> None:
    """One that was withdrawn and is made anew has no link from before."""
    for said in [*["An invitation is on its way to "] * 5, "This address gets no further mail just now."]:
        assert said in holder.post(TEAM, {"email": "nadia@example.com", "role": "reader"}, follow=True).content.decode()
        team.withdraw(alice.id, Invitation.objects.get().id)
    assert len(mail.outbox) == 5


def test_a_second_press_on_an_invitation_that_is_not_mailed_says_so_too(alice: Account, holder: Client) -> None:
    for _ in range(5):
        invite(holder)
        team.withdraw(alice.id, Invitation.objects.get().id)
    invite(holder)
    for _ in range(2):
        page = holder.post(f"/account/invitations/{Invitation.objects.get().id}/again", follow=True).content.decode()
        assert "This address gets no further mail just now." in page
    assert len(mail.outbox) == 5


def test_without_a_broker_it_says_so_and_keeps_the_invitation(
    alice: Account, holder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(send_invitation, "apply_async", away)
    page = holder.post(TEAM, {"email": "nadia@example.com", "role": "reader"}, follow=True).content.decode()
    assert "We cannot send mail just now" in page
    assert "not yet" in page
    assert Invitation.objects.get().sent_at is None


@pytest.mark.parametrize("away", ["the broker", "the mail server", "the worker"])
def test_a_link_goes_on_working_when_the_mail_that_is_sent_again_does_not_arrive(
    away: str, alice: Account, holder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("away") if away == "the broker" else OSError("away")

    invite(holder)
    match away:
        case "the broker":
            monkeypatch.setattr(send_invitation, "apply_async", fail)
        case "the mail server":
            monkeypatch.setattr(mails, "send", fail)
        case "the worker":
            monkeypatch.setattr(send_invitation, "apply_async", lambda *args, **kwargs: None)
    says = "We cannot send mail just now" if away == "the broker" else "An invitation is on its way to "
    for _ in range(2):
        page = holder.post(f"/account/invitations/{Invitation.objects.get().id}/again", follow=True).content.decode()
        assert says in page
        assert "not yet" in page
    assert len(mail.outbox) == 1
    assert b"new_password1" in Client().get(link()).content


def test_a_link_of_the_version_before_goes_on_working(alice: Account, holder: Client) -> None:
    """Such a link is a token, whose digest is in the database."""
    invite(holder)
    Invitation.objects.update(digest=digest_of("token"))
    old = "/account/invitation/" + Signer(salt="codservice.accounts.team").sign("token")
    holder.post(f"/account/invitations/{Invitation.objects.get().id}/again")
    assert b"new_password1" in Client().get(old).content
    assert b"new_password1" in Client().get(link()).content


def test_a_web_of_the_version_before_finds_the_link(alice: Account, holder: Client) -> None:
    """It looks for the digest of what is signed."""
    invite(holder)
    signed = Signer(salt="codservice.accounts.team").unsign(link().rpartition("/")[2])
    assert Invitation.objects.filter(digest=digest_of(signed)).exists()


def test_a_mail_that_is_asked_for_twice_goes_out_once(alice: Account) -> None:
    invitation = team.invite(alice.id, email="nadia@example.com", role="reader")
    for _ in range(2):
        send_invitation(str(invitation.id), host="testserver")
    assert len(mail.outbox) == 1


def test_while_redis_is_away_the_link_that_works_goes_on_working(
    alice: Account, holder: Client, limits_by: Callable[[str], None]
) -> None:
    invite(holder)
    limits_by("redis://127.0.0.1:1/0")
    page = holder.post(f"/account/invitations/{Invitation.objects.get().id}/again", follow=True).content.decode()
    assert "We cannot send mail just now" in page
    assert b"new_password1" in Client().get(link()).content
    assert log("invited_again") == []


def test_no_link_leads_to_a_host_of_others(alice: Account, holder: Client) -> None:
    invitation = team.invite(alice.id, email="nadia@example.com", role="reader")
    send_invitation(str(invitation.id), host="evil.example")
    assert mail.outbox == []


@pytest.mark.django_db(transaction=True)
def test_of_two_who_press_the_link_at_once_one_comes_in(alice: Account) -> None:
    invitation = team.invite(alice.id, email="nadia@example.com", role="reader")
    token = team.link_of(invitation)

    def press(number: int) -> str:
        try:
            return team.accept(token, name=f"Nadia {number}", password=NEW).username
        except (team.LinkOver, team.AddressTaken):
            return "refused"

    assert sorted(at_once(2, press)) == ["nadia@example.com", "refused"]
    assert Membership.objects.count() == 1


# --- Managing colleagues -----------------------------------------------------------------------------------------


def test_a_role_holds_from_the_next_click_on(alice: Account, holder: Client, member: Callable[..., User]) -> None:
    user = member("reader")
    theirs = browser_of(user)
    assert theirs.get("/account/orders/new").status_code == 403
    page = f"/account/team/{user.membership.id}"
    # On the way back, no browser chooses the role that the colleague has no longer.
    assert '<form class="card" method="post" autocomplete="off">' in holder.get(page).content.decode()
    assert holder.post(page, {"role": "manager"}).url == TEAM
    assert theirs.get("/account/orders/new").status_code == 200
    assert holder.post(page, {"role": "owner"}).status_code == 422
    assert log("role") == [("role", alice.holder.username, "nadia@example.com: manager")]


def test_in_arabic_the_button_that_removes_a_colleague_says_what_its_question_says(
    holder: Client, member: Callable[..., User]
) -> None:
    page = holder.get(f"/account/team/{member().membership.id}/remove", HTTP_ACCEPT_LANGUAGE="ar").content.decode()

    assert re.search(r"إزالة \W*Nadia\W* من الفريق؟", page)
    assert re.search(r"<button[^>]*>إزالة</button>", page)


def test_a_removed_colleague_is_out_at_once_and_their_address_is_free(
    alice: Account, holder: Client, member: Callable[..., User]
) -> None:
    user = member()
    theirs, page = browser_of(user), f"/account/team/{user.membership.id}/remove"
    assert theirs.get("/account/orders").status_code == 200
    assert "Remove Nadia from the team?" in holder.get(page).content.decode()
    assert theirs.get("/account/orders").status_code == 200
    assert holder.post(page).url == TEAM
    assert theirs.get("/account/orders").url.startswith("/account/login")
    assert not Client().login(username="nadia@example.com", password=PASSWORD)
    user.refresh_from_db()
    assert (user.display_name, user.email, user.is_active) == ("Nadia", "", False)
    assert log("removed") == [("removed", alice.holder.username, "nadia@example.com")]
    invite(holder)
    assert join(link()).status_code == 302


def test_a_colleague_leaves_by_themselves_and_can_be_invited_elsewhere(
    alice: Account, charlie: Account, holder: Client, member: Callable[..., User]
) -> None:
    user, elsewhere = member("reader"), browser_of(charlie.holder)
    theirs, other = browser_of(user), browser_of(user)
    invite(elsewhere)
    assert "choose “Leave the team…”" in mail.outbox[-1].body
    assert f'href="{LEAVE}"' in theirs.get("/account/orders").content.decode()
    assert "Your address becomes free" in theirs.get(LEAVE).content.decode()
    assert (refused := theirs.post(LEAVE, {"password": "wrong"})).status_code == 422
    assert "This is not your password." in refused.content.decode()
    answer = theirs.post(LEAVE, {"password": PASSWORD}, follow=True)
    assert answer.redirect_chain == [("/account/login", 302)]
    assert "You have left the team of “Alice" in answer.content.decode().replace("&#x27;", "'")
    assert [browser.get("/account/orders").status_code for browser in (theirs, other)] == [302, 302]
    user.refresh_from_db()
    assert (user.display_name, user.email, user.is_active) == ("Nadia", "", False)
    assert log("left", "removed") == [("left", "nadia@example.com", "nadia@example.com")]
    assert "left the team" in holder.get("/account/security", {"by": str(user.id)}).content.decode()
    elsewhere.post(f"/account/invitations/{Invitation.objects.get().id}/again")
    assert join(link()).status_code == 302


def test_a_colleague_leaves_a_closed_account_too(alice: Account, member: Callable[..., User]) -> None:
    browser = browser_of(member())
    alice.holder.deactivate()
    assert browser.post(LEAVE, {"password": PASSWORD}).url == "/account/login"
    assert not Membership.objects.exists()


def test_a_holder_does_not_leave(alice: Account, holder: Client) -> None:
    assert LEAVE not in holder.get("/account/orders").content.decode()
    page = holder.get(LEAVE).content.decode()
    assert "cannot leave" in page
    assert 'name="password"' not in page
    assert holder.post(LEAVE, {"password": PASSWORD}).url == "/account/"
    alice.holder.refresh_from_db()
    assert alice.holder.is_active


@pytest.mark.django_db(transaction=True)
def test_who_leaves_when_they_are_made_the_holder_at_that_moment_stays(
    alice: Account, member: Callable[..., User]
) -> None:
    after = member()
    browser = browser_of(after)
    with transaction.atomic():
        team.hand_over(alice.id, after.membership.id)
        leaving = Background(lambda: browser.post(LEAVE, {"password": PASSWORD}, follow=True))
        wait_for_lock()
    assert "This account has changed since you opened the page." in leaving.result().content.decode()
    after.refresh_from_db()
    assert after.is_active
    assert Account.objects.get().holder == after


def test_a_colleagues_name_turns_no_sentence_around(
    alice: Account, holder: Client, member: Callable[..., User]
) -> None:
    """Colleagues choose it themselves when they join."""
    page = f"/account/team/{member(name=chr(0x202E) + 'nadia').membership.id}"
    said = [
        holder.get(f"{page}/remove").context["title"],
        re.search('aria-label="Change ([^"]+)"', holder.get(TEAM).content.decode())[1],
        *(str(each) for each in holder.post(f"{page}/codes", follow=True).context["messages"]),
        *(str(each) for each in holder.post(f"{page}/remove", follow=True).context["messages"]),
    ]
    assert len(said) == 4
    assert not any("\u202e" in each for each in said)


def test_an_address_that_nobody_can_sign_in_with_is_not_invited(alice: Account, holder: Client) -> None:
    long = f"{'a' * 60}@{'b' * 60}.{'c' * 25}.dz"
    answer = invite(holder, email=long + "x")
    assert (answer.status_code, "at most 150 characters" in answer.content.decode()) == (422, True)
    invite(holder, email=long)
    assert join(link()).status_code == 302
    assert User.objects.filter(username=long).exists()


@pytest.mark.parametrize("email", factories.UNMAILABLE)
def test_an_address_to_which_no_mail_can_be_written_is_not_invited(email: str, alice: Account, holder: Client) -> None:
    validate_email(email)
    answer = invite(holder, email)
    assert (answer.status_code, "Enter a valid email address." in answer.content.decode()) == (422, True)
    assert not Invitation.objects.exists()


def test_an_invitation_of_which_no_mail_can_be_made_is_no_crash(alice: Account, caplog: Any) -> None:
    invitation = team.invite(alice.id, email=factories.UNMAILABLE[0], role="reader")
    send_invitation(str(invitation.id), host="testserver")
    assert "cannot be mailed" in caplog.text
    assert Invitation.objects.get().sent_at is None


def test_a_mail_server_that_is_away_is_a_line_without_a_traceback(alice: Account, caplog: Any, settings: Any) -> None:
    invitation = team.invite(alice.id, email="new@example.dz", role="reader")
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    asked = (
        (send_invitation, str(invitation.id), {"host": "testserver"}),
        (send_password_link, alice.holder.email, {"host": "testserver", "language": "en"}),
    )
    for task, whom, options in asked:
        assert task.apply([whom], options, retries=len(WAITS)).state == "SUCCESS", "it was the last try"
    assert [record.levelname for record in caplog.records if "mailed: [Errno" in record.getMessage()] == ["WARNING"] * 2
    assert not any(record.exc_info for record in caplog.records)
    assert Invitation.objects.get().sent_at is None


@pytest.mark.parametrize("names", [{"first_name": "A" * 150, "last_name": "B" * 150}, {"first_name": ""}])
def test_a_removed_colleague_keeps_their_name(alice: Account, member: Callable[..., User], names: Any) -> None:
    user = member()
    User.objects.filter(pk=user.pk).update(**names)
    user.refresh_from_db()
    name = user.display_name
    team.remove(alice.id, user.membership.id)
    user.refresh_from_db()
    assert user.display_name == name


@pytest.fixture
def mailing(alice: Account, request: pytest.FixtureRequest) -> Callable[[], EagerResult]:
    """Ask for an invitation or a password link."""
    if request.param == "invitation":
        id_ = str(team.invite(alice.id, email="nadia@example.com", role="reader").id)
        return lambda: send_invitation.apply_async([id_], {"host": "testserver"})
    options = {"host": "testserver", "language": "en"}
    return lambda: send_password_link.apply_async([alice.holder.email], options)


@pytest.fixture
def retries() -> Iterator[list[tuple[Any, ...]]]:
    """What is left to a worker for later: after how many seconds, of which task, and with which arguments."""
    left = list[tuple[Any, ...]]()

    def note(reason: Retry, **kwargs: Any) -> None:
        left.append((reason.when, reason.sig.task, *reason.sig.args, reason.sig.kwargs))

    task_retry.connect(note)
    yield left
    task_retry.disconnect(note)


BUSY = {"nadia@example.com": (451, b"4.7.1 Greylisted, come back later")}


@pytest.mark.parametrize("mailing", ["invitation", "link"], indirect=True)
@pytest.mark.parametrize(
    "error", [SMTPRecipientsRefused(BUSY), SMTPSenderRefused(452, b"Full", "cod@example.com"), TimeoutError()]
)
def test_a_mail_that_a_server_does_not_take_now_is_sent_later(
    alice: Account, mailing: Any, retries: list[Any], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    send, failures = mails.send, [error] * 3

    def busy(*mail: str) -> None:
        if failures:
            raise failures.pop()
        send(*mail)

    monkeypatch.setattr(mails, "send", busy)
    mailing()
    assert [seconds for seconds, *_ in retries] == [60, 120, 240]
    assert len(mail.outbox) == 1
    assert len({repr(message) for _, *message in retries}) == 1, "it is the same message"
    assert "http" not in repr(retries), "no link waits in Redis"


@pytest.mark.parametrize("mailing", ["invitation", "link"], indirect=True)
@pytest.mark.parametrize(
    ("error", "tries"), [(TimeoutError(), 5), (SMTPRecipientsRefused({"nadia@example.com": (550, b"No such user")}), 1)]
)
def test_a_mail_is_given_up_when_it_is_refused_for_good_or_was_tried_for_a_quarter_of_an_hour(
    mailing: Any,
    retries: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    tries: int,
) -> None:
    def refuse(*mail: str) -> None:
        raise error

    monkeypatch.setattr(mails, "send", refuse)
    assert mailing().state == "SUCCESS"
    assert [seconds for seconds, *_ in retries] == list(WAITS)[: tries - 1]
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == tries
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mailing", ["invitation", "link"], indirect=True)
@pytest.mark.parametrize(("away", "tries"), [(2, 3), (9, 5)])
def test_a_mail_is_sent_later_when_the_database_is_away_as_a_worker_takes_it(
    mailing: Any, retries: list[Any], caplog: pytest.LogCaptureFixture, client: Client, away: int, tries: int
) -> None:
    def end_session(*args: Any, **kwargs: Any) -> None:
        connection.close()  # as a worker does between two tasks
        if len(retries) < away:
            with suppress(DatabaseError):
                one("SELECT pg_terminate_backend(pg_backend_pid())")

    def failed() -> float:
        (line,) = re.findall(r'codservice_mails_total{outcome="failed"} (\S+)', client.get("/metrics").content.decode())
        return float(line)

    before = failed()
    task_retry.connect(end_session)
    try:
        end_session()
        assert mailing().state == "SUCCESS"
    finally:
        task_retry.disconnect(end_session)
        connection.close()
    assert [seconds for seconds, *_ in retries] == list(WAITS)[: tries - 1]
    assert len({repr(message) for _, *message in retries}) == 1
    assert len(mail.outbox) == (1 if away < tries else 0)
    assert failed() - before == min(away, tries)
    assert caplog.text.count("was not run, because the database cannot be used") == min(away, tries)


def test_keys_and_webhooks_are_the_accounts_and_outlast_a_colleague(
    alice: Account, holder: Client, member: Callable[..., User]
) -> None:
    user = member()
    body = {"url": "https://203.0.114.1/hooks", "events": ["order.confirmed"]}
    assert browser_of(user).post("/account/webhooks", body).status_code == 201
    assert browser_of(user).post("/account/quick-start").status_code == 201
    holder.post(f"/account/team/{user.membership.id}/remove")
    assert Webhook.objects.get().deleted_at is None
    assert ApiKey.objects.get().revoked_at is None


def test_managers_get_test_keys_and_no_others(alice: Account, member: Callable[..., User]) -> None:
    browser = browser_of(member())
    # Nothing leads to a form that is not there.
    assert "below" not in browser.get("/account/keys").content.decode()
    assert "below" not in browser_of(member("reader", "karim")).get("/account/webhooks").content.decode()
    assert browser.post("/account/keys", {"name": "x", "scopes": ["orders:read"], "works": "live"}).status_code == 403
    assert browser.post("/account/keys", {"name": "x", "scopes": ["orders:read"], "works": "test"}).status_code == 403
    assert browser.post("/account/quick-start").status_code == 201
    assert ApiKey.objects.get().account.live == alice
    assert "Create the key" not in browser.get("/account/keys").content.decode()


def test_who_may_not_do_something_is_told_whom_to_ask(alice: Account, member: Callable[..., User]) -> None:
    User.objects.filter(id=alice.holder_id).update(first_name="\u202e<b>", last_name="ياسمين")
    manager, reader = browser_of(member()), browser_of(member("reader", "karim"))
    name = "\u2068&lt;b&gt; ياسمين\u2069"
    assert f"Only the account's holder, {name}, creates" in manager.get("/account/keys").content.decode()
    for answer in (reader.get("/account/keys"), manager.post("/account/keys", {"name": "x"}), manager.get(TEAM)):
        assert answer.status_code == 403
        assert f"Ask the account&#x27;s holder, {name}." in answer.content.decode()


def test_a_lost_phone_is_helped_by_the_holder(alice: Account, holder: Client, member: Callable[..., User]) -> None:
    user = member()
    TOTPDevice.objects.create(user=user, confirmed=True, name="")
    phone = browser_of(user)
    assert phone.get("/account/sessions").status_code == 200
    assert "Turn one-time codes off" in holder.get(f"/account/team/{user.membership.id}").content.decode()
    for _press in range(2):
        holder.post(f"/account/team/{user.membership.id}/codes")
    assert phone.get("/account/sessions").status_code == 302, "whoever found it is not signed in any more"
    assert holder.get("/account/sessions").status_code == 200
    assert not TOTPDevice.objects.filter(user=user).exists()
    assert log("codes_off") == [("codes_off", alice.holder.username, "nadia@example.com")]


def test_another_accounts_people_and_invitations_are_not_found(
    charlie: Account, holder: Client, member: Callable[..., User]
) -> None:
    user, invitation = member(), team.invite(charlie.id, email="x@example.com", role="reader")
    Membership.objects.update(account=charlie)
    page = f"/account/team/{user.membership.id}"
    for path in (page, f"{page}/remove", f"{page}/codes", f"/account/invitations/{invitation.id}/again",
                 f"/account/invitations/{invitation.id}/withdraw"):  # fmt: skip
        assert holder.post(path, {"role": "reader"}).status_code == 404
    assert (Membership.objects.get().role, Invitation.objects.count()) == ("manager", 1)


def test_people_of_a_closed_account_look_and_change_nothing_of_it(alice: Account, member: Callable[..., User]) -> None:
    """An account whose holder is deactivated is closed, too: nobody answers for it."""
    browser = browser_of(member())
    alice.holder.deactivate()
    page = browser.get("/account/orders")
    assert (page.status_code, b"This account is closed" in page.content) == (200, True)
    assert b"Take out its data" not in page.content, "that is up to its holder"
    assert browser.post("/account/webhooks", {"url": "https://203.0.114.1/"}).url == "/account/"
    assert not Webhook.objects.exists()
    assert browser.post("/account/sessions/end").url == "/account/sessions", "their own affair"


def test_handing_over_swaps_holder_and_manager(alice: Account, member: Callable[..., User]) -> None:
    before, after = alice.holder, member()
    team.hand_over(alice.id, after.membership.id)
    assert Account.objects.get().holder == after
    assert before.membership.role == "manager"
    assert browser_of(after).get(TEAM).status_code == 200
    assert browser_of(before).get(TEAM).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_who_removes_a_colleague_to_whom_it_is_handed_over_at_that_moment_removes_nobody(
    alice: Account, holder: Client, member: Callable[..., User], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder would remove themselves, since the colleague's place is now theirs."""
    before, after = alice.holder, member()
    place = after.membership.id
    hashing = team.unknown_password

    def hand_over_meanwhile() -> str:
        Background(lambda: team.hand_over(alice.id, place)).result()
        return hashing()

    monkeypatch.setattr(team, "unknown_password", hand_over_meanwhile)
    assert holder.post(f"/account/team/{place}/remove").status_code == 404
    before.refresh_from_db()
    assert before.is_active
    assert Account.objects.get().holder == after


@pytest.mark.django_db(transaction=True)
def test_two_who_hand_an_account_over_at_once_do_not_give_it_back(alice: Account, member: Callable[..., User]) -> None:
    after = member()

    def hand_over() -> None:
        call_command("hand_over_account", "--account", alice.holder.email, "--to", after.email, stdout=StringIO())

    with transaction.atomic():
        team.hand_over(alice.id, after.membership.id)
        second = Background(hand_over)
        wait_for_lock()
    with pytest.raises(CommandError, match="Nobody with the address"):
        second.result()
    assert Account.objects.get().holder == after


@pytest.mark.django_db(transaction=True)
def test_an_account_is_handed_to_nobody_who_is_deactivated_at_that_moment(
    alice: Account, member: Callable[..., User]
) -> None:
    """None of the account's keys would work."""
    before, after = alice.holder, member()
    with transaction.atomic():
        User.objects.get(pk=after.pk).deactivate()
        handing_over = Background(lambda: team.hand_over(alice.id, after.membership.id))
        wait_for_lock()
    with pytest.raises(Membership.DoesNotExist):
        handing_over.result()
    assert Account.objects.get().holder == before


# --- What colleagues did -----------------------------------------------------------------------------------------


def test_the_holder_reads_what_each_of_them_did(alice: Account, holder: Client, member: Callable[..., User]) -> None:
    user, other = member(), member(name="karim")
    browser_of(other)
    order, fee = factories.make_order(alice), {"home-16": "400"}
    theirs = browser_of(user)
    SecurityEntry.objects.filter(action="login").delete()
    theirs.post(f"/account/orders/{order.id}/cancel", {"version": order.version, "reason": ""})
    theirs.post("/account/fees", fee)
    name = user.username
    assert log(*SecurityEntry.objects.values_list("action", flat=True)) == [
        ("order_canceled", name, str(order.id)),
        ("fees", name, "16"),
    ]
    page = holder.get("/account/security").content.decode()
    assert f'href="/account/orders/{order.id}"' in page
    assert "canceled an order" in holder.get("/account/security", {"by": str(user.id)}).content.decode()
    assert "canceled an order" not in holder.get("/account/security", {"by": str(other.id)}).content.decode()
    assert holder.get("/account/security", {"by": "x"}).status_code == 422
    assert theirs.get("/account/security").status_code == 403


def test_the_pages_ask_the_same_number_of_questions_however_many_there_are(
    alice: Account, holder: Client, member: Callable[..., User], django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        member(name=f"person{number}")
        team.invite(alice.id, email=f"invited{number}@example.com", role="reader")
    with django_assert_max_num_queries(7):
        holder.get(TEAM)


def test_a_refusal_asks_who_somebody_is_and_no_more(
    alice: Account, member: Callable[..., User], client: Client, django_assert_num_queries: Any
) -> None:
    """The session, the person with their rights and, for a colleague, the account they work for: each once."""
    client.force_login(member("reader"))
    with django_assert_num_queries(4):
        assert client.get("/account/data").status_code == 403
    client.force_login(User.objects.create_user("samira", is_staff=True))
    with django_assert_num_queries(2):
        assert client.get("/console/people/").status_code == 403


def test_who_tries_to_sign_in_as_a_colleague_stands_in_the_holders_log(
    alice: Account, holder: Client, member: Callable[..., User]
) -> None:
    Client().post("/account/login", {"username": member().username, "password": "wrong"})
    assert SecurityEntry.objects.get(outcome="refused").account == alice


# --- Commands ----------------------------------------------------------------------------------------------------


def test_operators_hand_an_account_over_and_turn_codes_off(alice: Account, member: Callable[..., User]) -> None:
    before, after = alice.holder.email, member()
    out = StringIO()
    gone = member(name="karim")
    gone.deactivate()
    User.objects.filter(pk=member(name="without an address").pk).update(email="")
    for nobody in ("x@example.com", gone.email, ""):  # to invite a colleague who is deactivated would be refused
        with pytest.raises(CommandError, match=f"Nobody with the address “{nobody}” .* may sign in.* the page People"):
            call_command("hand_over_account", "--account", before, "--to", nobody, stdout=out)
    with pytest.raises(CommandError, match=f"{before} is already the holder of this account"):
        call_command("hand_over_account", "--account", before, "--to", before.upper(), stdout=out)
    call_command("hand_over_account", "--account", before, "--to", after.email, stdout=out)
    assert Account.objects.get().holder == after
    TOTPDevice.objects.create(user=after, confirmed=True, name="")
    call_command("turn_codes_off", after.email, stdout=out)
    assert not TOTPDevice.objects.exists()
    with pytest.raises(CommandError, match="Nobody signs in"):
        call_command("turn_codes_off", after.email, stdout=out)


@pytest.mark.django_db
def test_codes_are_turned_off_for_whoever_signs_in_by_that_name() -> None:
    """A username goes before an address, as at the login. Most staff have no address, so an empty one is nobody's."""
    supervisor = factories.AgentFactory(username="karim", email="karim@example.com")
    agent = factories.AgentFactory(username="karim@example.com")
    for user in (supervisor, agent):
        TOTPDevice.objects.create(user=user, confirmed=True, name="")
    for nobody in ("", "KARIM"):
        with pytest.raises(CommandError, match="Nobody signs in"):
            call_command("turn_codes_off", nobody, stdout=StringIO())
    call_command("turn_codes_off", "karim@example.com", stdout=StringIO())
    assert TOTPDevice.objects.get().user == supervisor

"""The holder's pages about the account's people and invitations, and a colleague's own: to join, and to leave."""

import logging
from typing import Any
from uuid import UUID

from celery.exceptions import OperationalError
from django import forms
from django.contrib import messages
from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST
from django.views.generic import FormView
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice import ratelimit
from codservice.accounts import known_browsers, merchants, one_time_codes, team
from codservice.accounts.account_page import Gone, account_page, confirmation
from codservice.accounts.forms import ChosenPassword, TooManyTries, count_try
from codservice.accounts.models import Account, Invitation, Membership, PersonChanged, User
from codservice.accounts.own_codes import PasswordForm
from codservice.accounts.tasks import have_mailed, need_broker, send_invitation
from codservice.accounts.team import Right
from codservice.accounts.views import locked_or
from codservice.bidi import unturned
from codservice.errors import Refused
from codservice.form_fields import Form, MailField, WrittenText

logger = logging.getLogger(__name__)

Role = team.Role
ROLE_WORDS = {
    Role.MANAGER: gettext_lazy("orders, products, fees and webhooks, but not keys or the team"),
    Role.READER: gettext_lazy("looks at orders, products, fees and webhooks, but changes nothing"),
}
# Limits on invitations: sent by an account, and mailed to one address, whoever invites it.
INVITATION_RATE = "30/h"
MAIL_RATE = "5/h"

_TEAM = ("team", gettext_lazy("Team"), False)
NO_INVITATION = Gone(
    gettext_lazy("This invitation is no longer open: the person has joined, or it was withdrawn."), *_TEAM
)
NOT_HERE = Gone(gettext_lazy("This person is no longer on your team."), *_TEAM)


class RoleForm(Form):
    role = forms.ChoiceField(
        label=gettext_lazy("Role"), choices=Role.choices, initial=Role.MANAGER, widget=forms.RadioSelect
    )

    @property
    def choices(self) -> list[tuple[Any, Any]]:
        """The radio buttons, each with what its role may do."""
        return [(button, ROLE_WORDS[Role(button.data["value"])]) for button in self["role"]]


class InvitationForm(RoleForm):
    email = MailField(
        label=gettext_lazy("E-mail"),
        max_length=merchants.MAX_EMAIL,
        widget=forms.EmailInput(attrs={"autocomplete": "off", "dir": "ltr"}),
    )

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()


@account_page(look=Right.OWN)
def page(request: HttpRequest, account: Account) -> HttpResponse:
    """The people and invitations; a POST invites somebody."""
    live = account.live_account
    form = InvitationForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            count_try(request, "invitation", str(live.id), INVITATION_RATE)
            invitation = team.invite(live.id, **form.cleaned_data)
        except TooManyTries as error:
            form.add_error(None, error)
        except Refused as refused:
            form.add_error("email", refused.message)
        else:
            _send(request, invitation)
            return redirect("team")
    members = list(live.memberships.select_related("user").order_by("user__first_name", "user__username"))
    people = [live.holder, *(member.user for member in members)]
    with_codes = TOTPDevice.objects.filter(user__in=people, confirmed=True).values_list("user_id", flat=True)
    context = {
        "live": live,
        "form": form,
        "members": members,
        "with_codes": set(with_codes),
        "invitations": list(live.invitations.order_by("email")),
        "now": timezone.now(),
    }
    return locked_or(render(request, "accounts/team.html", context, status=422 if form.errors else 200), form)


def _send(request: HttpRequest, invitation: Invitation, *, is_again: bool = False) -> None:
    """Have the worker mail the invitation, and say so in the same words whoever the address belongs to.

    If the address has reached its limit, or while Redis is known to be away, there is no mail, which is said, and an
    invitation that `is_again` sent is not renewed.
    """
    if ratelimit.limited_for(request, "invitation-mail", invitation.email, MAIL_RATE):
        text = _("This address gets no further mail just now. Send the invitation again in an hour.")
        messages.warning(request, text)
        return
    try:
        need_broker()
        if is_again:
            team.invite_again(invitation.account_id, invitation.id)
        have_mailed(send_invitation, str(invitation.id), host=request.get_host())
    except OperationalError as error:  # the broker is away
        logger.warning("an invitation could not be mailed: %s", error)
        text = _("We cannot send mail just now. Send the invitation again in a few minutes.")
        messages.error(request, text)
        return
    text = _("An invitation is on its way to %(email)s.")
    messages.success(request, text % {"email": unturned(invitation.email)})


@account_page(look=Right.OWN, gone=NO_INVITATION)
@require_POST
def invite_again(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    live = account.live_account
    invitation = get_object_or_404(Invitation, id=id, account=live)
    try:
        count_try(request, "invitation", str(live.id), INVITATION_RATE)
    except TooManyTries as error:
        messages.error(request, error.messages[0])
    else:
        _send(request, invitation, is_again=True)
    return redirect("team")


@account_page(look=Right.OWN, gone=NO_INVITATION)
@require_POST
def withdraw(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    live = account.live_account
    get_object_or_404(Invitation, id=id, account=live)
    team.withdraw(live.id, id)
    messages.success(request, _("The invitation is withdrawn. Its link no longer works."))
    return redirect("team")


# --- A colleague's page ----------------------------------------------------------------------------------------------


def _member(account: Account, id: UUID) -> Membership:
    live = account.live_account
    return get_object_or_404(live.memberships.select_related("user"), id=id)


@account_page(look=Right.OWN, gone=NOT_HERE)
def colleague(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Show what a colleague may do; a POST changes it."""
    member = _member(account, id)
    form = RoleForm(request.POST if request.method == "POST" else None, initial={"role": member.role})
    if form.is_valid():
        team.change_role(member.account_id, id, form.cleaned_data["role"])
        messages.success(request, _("The role applies from their next click."))
        return redirect("team")
    has_codes = one_time_codes.are_on(member.user)
    context = {"member": member, "form": form, "has_codes": has_codes}
    return render(request, "accounts/colleague.html", context, status=422 if form.errors else 200)


@account_page(look=Right.OWN, gone=NOT_HERE)
def remove(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """GET asks for confirmation, POST removes the colleague."""
    member = _member(account, id)
    name = {"name": unturned(member.user.display_name)}
    if request.method != "POST":
        return confirmation(
            request,
            title=_("Remove %(name)s from the team?") % name,
            text=_(
                "They are signed out at once and cannot sign in any more. What they did stays in the log. API keys "
                "and webhooks belong to the account and keep working: check whether they know any that you should "
                "change."
            ),
            button=pgettext("colleague", "Remove"),
            back=reverse("colleague", args=[id]),
        )
    team.remove(member.account_id, id)
    messages.success(request, _("%(name)s is signed out and can no longer sign in.") % name)
    return redirect("team")


@account_page(look=Right.OWN, gone=NOT_HERE)
@require_POST
def forget_codes(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Turn codes off for a colleague who has lost their phone."""
    member = _member(account, id)
    team.forget_codes(member.account_id, id)
    name = unturned(member.user.display_name)
    messages.success(request, _("%(name)s now signs in with the password only.") % {"name": name})
    return redirect("colleague", id=id)


# --- Leaving the team ------------------------------------------------------------------------------------------------


@account_page(change=Right.READ)
@sensitive_post_parameters()
def leave(request: HttpRequest, account: Account) -> HttpResponse:
    """Say what leaving does and ask for the person's password, with which a POST does it. A holder is told to stay."""
    form = PasswordForm(request.POST if request.method == "POST" else None, request=request)
    if not form.is_valid():
        page = render(request, "accounts/leave.html", {"form": form}, status=422 if form.errors else 200)
        return locked_or(page, form)
    try:
        team.leave(request.user)
    except PersonChanged as refused:
        messages.error(request, refused.message)
        return redirect("account")
    logout(request)
    text = _("You have left the team of “%(account)s”. Your address can be invited elsewhere now.")
    messages.success(request, text % {"account": unturned(account.name)})
    return redirect("login")


# --- Accepting an invitation -----------------------------------------------------------------------------------------


class AcceptForm(ChosenPassword):
    """A name, and the password to sign in with from now on."""

    name = WrittenText(
        label=gettext_lazy("Your name"),
        max_length=User._meta.get_field("first_name").max_length,
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    field_order = ("name", "new_password1", "new_password2")

    def validate_password_for_user(self, user: User, *confirmation: str) -> None:
        user.first_name = self.cleaned_data.get("name", "")
        super().validate_password_for_user(user, *confirmation)


@method_decorator([never_cache, sensitive_post_parameters(), sensitive_variables()], name="dispatch")
class Accept(FormView):
    """The page that the mailed link leads to: who invites, and a form; or that the link no longer works."""

    template_name = "accounts/invitation.html"
    form_class = AcceptForm

    http_method_names = ("get", "head", "post")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            self.invitation = team.find(kwargs["token"])
        except team.LinkOver:
            return render(request, self.template_name, {"is_over": True}, status=404)
        return super().dispatch(request, *args, **kwargs)

    def get_form_kwargs(self) -> dict[str, Any]:
        email = self.invitation.email
        return super().get_form_kwargs() | {"user": User(username=email, email=email)}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        role = Role(self.invitation.role)
        return super().get_context_data(invitation=self.invitation, role=role.label, may=ROLE_WORDS[role], **kwargs)

    def form_valid(self, form: AcceptForm) -> HttpResponse:
        data = form.cleaned_data
        try:
            user = team.accept(self.kwargs["token"], name=data["name"], password=data["new_password1"])
        except Refused as refused:
            form.add_error(None, refused.message)
            return self.render_to_response(self.get_context_data(form=form), status=422)
        login(self.request, user)
        response = redirect("account")
        known_browsers.remember(self.request, response, user)
        messages.success(self.request, _("Welcome. From now on you sign in with your address and this password."))
        return response

"""The account's pages about webhooks, at /account/webhooks: register, change, test, rotate, delete, recover.

A webhook's own page is its log (`log_pages`). The pages use the same functions (`registry`, `events.ping`, `recovery`)
and the same checks as the API.
"""

from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from codservice import days
from codservice.accounts.account_page import Gone, account_page, confirmation
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.team import Right
from codservice.api.fields import read_body
from codservice.bidi import unturned
from codservice.concurrent_edits import SinceShown
from codservice.errors import Invalid
from codservice.form_fields import DayField, Form, WrittenText
from codservice.i18n_tags import counted
from webhooks import events, feed, recovery, registry
from webhooks.models import Event, Webhook
from webhooks.openapi import example_of
from webhooks.serializers import WebhookChange, WebhookPing, WebhookRegistration, read_recovery
from webhooks.templatetags.webhooks import KINDS

WEBHOOKS = ("account-webhooks", gettext_lazy("Webhooks"))
NO_WEBHOOK = Gone(gettext_lazy("This webhook no longer exists: it was deleted."), *WEBHOOKS)
OFF = gettext_lazy("This webhook is off. Turn it on first.")


class WebhookForm(Form):
    """A webhook to register. Refuses what the API refuses, in the same words."""

    url = forms.CharField(
        label=gettext_lazy("Address"),
        widget=forms.URLInput(attrs={"dir": "ltr", "placeholder": "https://shop.example/hooks"}),
        help_text=gettext_lazy("Where your shop receives events: https, a public host, port 443 or from 1024 on."),
        error_messages={"required": gettext_lazy("Enter the address.")},
    )
    description = WrittenText(
        label=gettext_lazy("Note"),
        max_length=255,
        required=False,
        help_text=gettext_lazy("What it is for. Only you see it."),
    )
    events = forms.MultipleChoiceField(
        label=gettext_lazy("Notify it when"),
        choices=[(kind, KINDS[kind]) for kind in Event.Kind],
        initial=[Event.Kind.ORDER_CONFIRMED, Event.Kind.ORDER_CANCELLED, Event.Kind.INVENTORY_UPDATED],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Choose at least one.")},
    )

    def clean(self) -> dict[str, Any]:
        if not self.errors:
            try:
                self.cleaned_data = self.read(self.cleaned_data)
            except Invalid as error:
                self.add_errors(error)
        return self.cleaned_data

    def read(self, data: dict[str, Any]) -> dict[str, Any]:
        return read_body(WebhookRegistration, data)


class WebhookChangeForm(SinceShown, WebhookForm):
    """Like `WebhookForm`, for an existing webhook. Its secret stays."""

    is_active = forms.BooleanField(
        label=gettext_lazy("It is on"),
        required=False,
        help_text=gettext_lazy(
            "While it is off, nothing is sent to it or kept for it, and what is waiting is dropped."
        ),
    )

    def read(self, data: dict[str, Any]) -> dict[str, Any]:
        return read_body(WebhookChange, {name: data[name] for name in self.changed_data})


class RecoverForm(Form):
    """The days whose changes are to be sent after all."""

    since = DayField(label=gettext_lazy("From"))
    until = DayField(
        label=gettext_lazy("To"),
        required=False,
        help_text=gettext_lazy("This day is included. Leave it empty for everything up to now."),
    )

    def clean(self) -> dict[str, Any]:
        if not self.errors:
            body = {name: day.isoformat() for name, day in self.cleaned_data.items() if day}
            try:
                self.cleaned_data["since"], self.cleaned_data["until"] = read_recovery(body)
            except Invalid as error:
                if "since" in error.errors:
                    text = _("Choose one of the last %(count)d days.") % {"count": max(feed.SHOWN.days, 1)}
                    self.add_error("since", text)
                if "until" in error.errors:
                    self.add_error("until", _("Choose a day that is not before the first."))
        return self.cleaned_data


def _webhook(account: Account, id: UUID) -> Webhook:
    return get_object_or_404(Webhook.of(account.id), id=id)


# --- Registering -----------------------------------------------------------------------------------------------------


@account_page()
@sensitive_variables("secret")
def webhooks(request: HttpRequest, account: Account) -> HttpResponse:
    """List the account's webhooks; POST registers one, whose secret is shown in this answer only.

    A second click does not register a second one, which would send the shop everything twice."""
    form, new, secret, status = WebhookForm(request.POST or None), None, "", 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                new, secret = registry.register(account.id, **form.cleaned_data, once=True)
                form, status = WebhookForm(), 201
            except Invalid as error:
                form.add_errors(error)
    listed = list(Webhook.of(account.id).order_by("created_at", "id"))
    context = {"form": form, "webhooks": listed, "new": new, "secret": secret, "most": registry.MOST_WEBHOOKS}
    return render(request, "webhooks/webhooks.html", context, status=status)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@sensitive_variables("secret")
def rotate(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """GET asks for confirmation; POST creates a new secret, shown in this answer only, and once per confirmation."""
    webhook = _webhook(account, id)
    if request.method != "POST":
        text = _(
            "The new secret signs at once. For 24 hours, the old one signs too, so that you can switch without a gap."
        )
        if webhook.both_sign_until:
            text += " " + _(
                "The one before that still signs now but ends at once: make sure that your shop does not need it."
            )
        return confirmation(
            request,
            title=_("A new signing secret?"),
            text=text,
            button=_("Create a new secret"),
            back=reverse("account-webhook", args=[id]),
            fields={"replaces": webhook.secret_hint},
        )
    try:
        if request.POST.get("replaces", webhook.secret_hint) != webhook.secret_hint:
            raise registry.SecretChanged
        webhook, secret = registry.rotate_secret(account.id, id, replaces=webhook.secret_hint)
    except registry.SecretChanged as refused:
        messages.error(request, refused.message)
        return redirect("account-webhook", id=id)
    return render(request, "webhooks/rotated.html", {"webhook": webhook, "secret": secret})


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
def delete(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """GET asks for confirmation; POST deletes the webhook."""
    webhook = _webhook(account, id)
    if request.method != "POST":
        return confirmation(
            request,
            title=_("Delete this webhook?"),
            text=_("%(url)s is no longer notified, and what is waiting for it is dropped.")
            % {"url": unturned(webhook.url)},
            button=_("Delete the webhook"),
            back=reverse("account-webhook", args=[id]),
        )
    registry.delete(account.id, id)
    messages.success(request, _("The webhook is deleted."))
    return redirect("account-webhooks")


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@require_POST
def ping(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Send a test event, or an example of a kind of event; the delivery's page then shows how it goes."""
    webhook = _webhook(account, id)
    try:
        kind = read_body(WebhookPing, {"event": request.POST.get("event") or None})["event"]
        with transaction.atomic():
            delivery_id = events.ping(account.id, id, kind=kind, example=example_of(kind))
            registry.note(Action.WEBHOOK_TESTED, webhook)
    except events.WebhookOff:
        messages.error(request, OFF)
        return redirect("account-webhook", id=id)
    except Invalid:
        messages.error(request, _("There is no such event."))
        return redirect("account-webhook", id=id)
    messages.success(request, _("A test event is on its way."))
    return redirect("account-delivery", id=delivery_id)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
def change(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Change a webhook's address, kinds of events and note, and turn it on or off."""
    shown, status = _webhook(account, id), 200
    initial = {name: getattr(shown, name) for name in ("url", "description", "events", "is_active")}
    form = WebhookChangeForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                registry.change(account.id, id, form.cleaned_data)
            except registry.StillDropping as error:
                form.add_error("is_active", error.message)
                status = error.status
            else:
                messages.success(request, _("The webhook is changed."))
                if form.cleaned_data.get("is_active"):
                    text = _("It is on again. To have it sent what it missed while it was off, press “Recover…”.")
                    messages.success(request, text)
                return redirect("account-webhook", id=id)
    return render(request, "webhooks/change.html", {"webhook": shown, "form": form}, status=status)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
def recover(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """GET asks for days; POST sends what was missed in them."""
    shown = _webhook(account, id)
    form = RecoverForm(request.POST if request.method == "POST" else None, initial={"since": days.today()})
    if not form.is_valid():
        context = {"webhook": shown, "form": form}
        return render(request, "webhooks/recover.html", context, status=422 if form.errors else 200)
    try:
        note = partial(registry.note, Action.WEBHOOK_RECOVERED, shown)
        recovered = recovery.recover(account.id, id, **form.cleaned_data, note=note)
    except events.WebhookOff:
        messages.error(request, OFF)
        return redirect("account-webhook", id=id)
    except recovery.StillRecovering as busy:
        messages.error(request, busy.message)
        return redirect("account-webhook", id=id)
    count = recovered.deliveries
    text = ngettext("%(count)s delivery is sent.", "%(count)s deliveries are sent.", count)
    messages.success(request, text % {"count": counted(count)})
    if not recovered.is_over:
        messages.success(request, _("It is not over yet, and goes on by itself."))
    return redirect("account-webhook", id=id)


urlpatterns = [
    path("webhooks", webhooks, name="account-webhooks"),
    path("webhooks/<uuid:id>/ping", ping, name="account-webhook-ping"),
    path("webhooks/<uuid:id>/change", change, name="account-webhook-change"),
    path("webhooks/<uuid:id>/recover", recover, name="account-webhook-recover"),
    path("webhooks/<uuid:id>/rotate", rotate, name="account-webhook-rotate"),
    path("webhooks/<uuid:id>/delete", delete, name="account-webhook-delete"),
]

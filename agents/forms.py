from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import ValidationError as Unusable
from uuid_utils.compat import uuid7

from codservice.accounts.forms import LoginForm
from codservice.api.fields import Text
from orders.models import CallNote, Order

FARTHEST_CALLBACK = timedelta(days=90)


class ConsoleLoginForm(LoginForm, AdminAuthenticationForm):
    """Lets in who works here; a merchant's right password is answered like a wrong one."""


class FreeText(forms.CharField):
    """Text that the API may show as it is: the API's own rule for free text."""

    widget = forms.Textarea

    def clean(self, value: Any) -> str:
        rule = Text(free=True, allow_blank=not self.required, max_length=self.max_length)
        try:
            return rule.clean(value or "")
        except Unusable as error:
            raise ValidationError([str(sentence) for sentence in error.detail]) from None


class MoveForm(forms.Form):
    """A decision about the order as the agent saw it: at this version."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def __init__(self, *args: Any, order: Order, auto_id: bool | str = False, **kwargs: Any) -> None:
        super().__init__(*args, initial={"version": order.version}, auto_id=auto_id, label_suffix="", **kwargs)

    @property
    def reason(self) -> str:
        return ""


class CancelReason(models.TextChoices):
    """The value is what is kept, and what the merchant reads."""

    REFUSED = "Customer refused", _("Customer refused")
    UNREACHABLE = "Customer unreachable", _("Customer unreachable")
    WRONG_NUMBER = "Wrong number", _("Wrong number")
    DUPLICATE = "Duplicate", _("Duplicate")
    FAKE = "Fake order", _("Fake order")
    OUT_OF_STOCK = "Out of stock", _("Out of stock")
    OTHER = "Other", _("Other: say what")


class CancelForm(MoveForm):
    why = forms.ChoiceField(label=_("Why?"), choices=[("", _("Choose a reason")), *CancelReason.choices])
    details = FreeText(
        label=_("In other words"),
        required=False,
        max_length=Order._meta.get_field("cancel_reason").max_length - 40,  # room for the reason before it
        widget=forms.TextInput,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="cancel-%s", **kwargs)

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("why") == CancelReason.OTHER and not self.cleaned_data.get("details"):
            self.add_error("details", _("Say why the order is canceled."))
        return self.cleaned_data

    @property
    def reason(self) -> str:
        why, details = self.cleaned_data["why"], self.cleaned_data["details"]
        if why == CancelReason.OTHER:
            return details
        return f"{why}: {details}" if details else why


class CallNoteForm(forms.Form):
    """What came of a call. The same `note_id` sent twice makes one note."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    note_id = forms.UUIDField(widget=forms.HiddenInput)
    outcome = forms.ChoiceField(label=_("The call"), choices=[("", _("Choose an outcome")), *CallNote.Outcome.choices])
    callback_at = forms.DateTimeField(
        label=_("Call back at"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    note = FreeText(
        label=_("Note"),
        required=False,
        max_length=CallNote._meta.get_field("note").max_length,
        widget=forms.Textarea(attrs={"rows": 3, "dir": "auto"}),
    )

    def __init__(self, *args: Any, order: Order, **kwargs: Any) -> None:
        initial = {"version": order.version, "note_id": uuid7()}
        super().__init__(*args, initial=initial, auto_id="note-%s", label_suffix="", **kwargs)

    def clean_callback_at(self) -> datetime | None:
        at, now = self.cleaned_data["callback_at"], timezone.now()
        if self.cleaned_data.get("outcome") != CallNote.Outcome.CALLBACK:
            return None
        if at is not None and not now < at < now + FARTHEST_CALLBACK:
            raise ValidationError(_("Choose a time within the next 90 days."))
        return at

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("outcome") == CallNote.Outcome.NOTE and not self.cleaned_data.get("note"):
            self.add_error("note", _("Write the note."))
        return self.cleaned_data

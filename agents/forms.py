"""The console's login form and the forms on an order's page; the desk's forms are in `agents.desk.forms`."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm
from django.utils.translation import gettext_lazy as _

from agents.desk.forms import NoteId, ReasonForm
from codservice.accounts.forms import LoginForm
from codservice.form_fields import Form, FreeText
from orders import lifecycle
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, Order

Outcome = CallNote.Outcome


class ConsoleLoginForm(LoginForm, AdminAuthenticationForm):
    """Lets in only staff; a merchant's correct password is answered like a wrong one."""

    is_of_staff = True
    about_code = _(
        "Only if you have turned codes on. Lost your phone? Your supervisor, or an operator, can turn them off."
    )


class MoveForm(Form):
    """What is said of an order at the version that the person saw."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    ids: bool | str = False  # the `auto_id` of its fields
    reason = ""

    def __init__(self, data: Any = None, *, order: Order) -> None:
        super().__init__(data, initial={"version": order.version}, auto_id=self.ids)


class CancelForm(ReasonForm, MoveForm):
    ids = "cancel-%s"

    @property
    def reason(self) -> str:
        return CancelReason(self.cleaned_data["why"]).kept_as(self.cleaned_data["details"])


class CallNoteForm(MoveForm):
    """The outcome of a call about a decided order. What is sent twice makes one note.

    No call can be promised here, because no queue would bring the order back."""

    OUTCOMES = [*(Outcome(name) for name in CallNote.CALLS if name != Outcome.CALLBACK), Outcome.NOTE]

    ids = "note-%s"

    note_id = NoteId()
    outcome = forms.ChoiceField(
        label=_("The call"),
        choices=[("", _("Choose an outcome")), *((outcome.value, outcome.label) for outcome in OUTCOMES)],
    )
    note = FreeText(label=_("Note"), required=False, max_length=CallNote._meta.get_field("note").max_length)

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("outcome") == Outcome.NOTE and not self.cleaned_data.get("note"):
            self.add_error("note", _("Write the note."))
        return self.cleaned_data

    @property
    def press_id(self) -> UUID:
        """The note's id: the same for a form that is sent twice, another for anything else that is said on it."""
        data = self.cleaned_data
        return lifecycle.derived_id(data["note_id"], f"{data['outcome']}\0{data['note']}")

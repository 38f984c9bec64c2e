"""The call screen's forms. A form produces a value, with which its view makes one call."""

from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils import formats, timezone
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from agents.desk import decisions, hours, planning, shown
from agents.desk.workers import WorkerField
from codservice.accounts.models import User
from codservice.form_fields import Form, FreeText
from codservice.i18n_tags import listed
from orders import call_words, lifecycle
from orders.call_words import HandoverReason, SkipReason
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, Order

Outcome = CallNote.Outcome
FARTHEST_CALLBACK = timedelta(days=90)
OLDEST_PAGE = timedelta(hours=12)  # no session lasts longer
MAX_DETAILS = Order._meta.get_field("cancel_reason").max_length - 40  # room for the reason before it
MAX_OWN_WORDS = 200
# Room for three lines before it: to whom the customer is handed, a reason that has a button, and the agent's own words.
MAX_NOTE = CallNote._meta.get_field("note").max_length - 300 - 100 - (MAX_OWN_WORDS + 1)
OLD_PAGE = _("This page is out of date. Reload it and try again.")
AT_WIDGET = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class SeenField(forms.Field):
    """The versions of the orders on the page, in the form of `shown.as_sent`."""

    widget = forms.MultipleHiddenInput
    default_error_messages = {"required": OLD_PAGE}

    def to_python(self, value: Any) -> dict[UUID, int]:
        try:
            return shown.versions_in(value or ())
        except ValueError:
            raise ValidationError(OLD_PAGE) from None


class NoteId(forms.UUIDField):
    """The id of the form that was shown, of version 7: its notes' ids follow from it (`lifecycle.derived_id`)."""

    def __init__(self) -> None:
        super().__init__(widget=forms.HiddenInput, initial=uuid7)

    def validate(self, value: UUID | None) -> None:
        super().validate(value)
        if value and value.version != 7:
            raise ValidationError(self.error_messages["invalid"], code="invalid")


def read_seen(sent: list[str]) -> dict[UUID, int]:
    """The versions that a page sent; empty when any of them cannot be read."""
    try:
        return shown.versions_in(sent)
    except ValueError:
        return {}


def _own_words(max_length: int) -> FreeText:
    return FreeText(label=_("In your own words"), required=False, max_length=max_length, widget=forms.TextInput)


class ReasonForm(Form):
    """Why an order is canceled."""

    why = forms.ChoiceField(label=_("Why?"), choices=[("", _("Choose a reason")), *CancelReason.choices])
    details = _own_words(MAX_DETAILS)

    def clean(self) -> dict[str, Any]:
        _ask_for_words(self)
        return self.cleaned_data


def _ask_for_words(form: forms.Form) -> None:
    """Require an explanation for *Other*."""
    if form.cleaned_data.get("why") == CancelReason.OTHER and not form.cleaned_data.get("details"):
        form.add_error("details", _("Say why the order is canceled."))


class OutcomeForm(Form):
    """What came of a call: one of the buttons, with what it asks for. What is sent twice is written once.

    `seal` signs the screen that the form was on: the claim, `shown_at` and `seen`. Confirm and cancel are about the
    chosen order; everything else is about the customer and all their orders.
    """

    CONFIRM, CONFIRM_ALL, CANCEL = "confirm", "confirm_all", "cancel"
    # Buttons for usual callback times → names of `planning.presets`; None: the time in `at`.
    CALLBACKS = {
        "callback_hour": "hour",
        "callback_evening": "evening",
        "callback_tomorrow": "tomorrow",
        "callback": None,
    }
    # The fields of each button's panel. What was left in another button's panel is ignored, as that panel is closed.
    ASKED: ClassVar[dict[str, set[str]]] = {
        CANCEL: {"details"},
        "callback_tomorrow": {"tomorrow"},
        "callback": {"at"},
        Outcome.HANDED_OVER: {"to", "handover_reason"},
        Outcome.SKIPPED: {"skip_reason"},
    }
    # Outcomes that ask for a reason, and the reasons that have buttons: `cancel:Duplicate`.
    REASONS = {CANCEL: CancelReason, Outcome.HANDED_OVER: HandoverReason, Outcome.SKIPPED: SkipReason}
    OUTCOMES = [
        CONFIRM, CONFIRM_ALL, CANCEL, *(outcome.value for outcome in CallNote.SILENT), Outcome.WRONG_NUMBER, *CALLBACKS,
        Outcome.HANDED_OVER, Outcome.SKIPPED,
        *(f"{name}:{reason}" for name, reasons in REASONS.items() for reason in reasons),
    ]  # fmt: skip

    # A function, because choices of the class would be copied one by one for each form.
    outcome = forms.ChoiceField(choices=lambda: [(name, name) for name in OutcomeForm.OUTCOMES])
    order = forms.UUIDField()
    seen = SeenField()
    note_id = NoteId()
    shown_at = forms.DateTimeField(required=False)  # by the database's clock; CALLBACKS' times follow from it
    tomorrow = forms.DateTimeField(required=False)  # as its button said; the hours may have changed since
    seal = forms.CharField(required=False, max_length=100)
    asked = forms.UUIDField(required=False)  # the order whose duplicates the screen has asked about
    note = FreeText(label=_("Note"), required=False, max_length=MAX_NOTE)
    details = _own_words(MAX_DETAILS)
    at = forms.DateTimeField(label=_("At a chosen time"), required=False, widget=AT_WIDGET)
    to = WorkerField(label=_("To whom?"), required=False, empty_label=_("A supervisor"))
    handover_reason = _own_words(MAX_OWN_WORDS)
    skip_reason = _own_words(MAX_OWN_WORDS)
    pause = forms.BooleanField(required=False)

    def __init__(self, data: Any = None, *, claim_id: UUID, agent: User, pause: bool = False) -> None:
        self.claim_id, self.agent = claim_id, agent
        super().__init__(data, initial={"pause": pause}, auto_id="call-%s")
        self.fields["to"].but = agent.pk
        note = self.fields["note"]
        note.widget.attrs |= {"data-key": "n", "placeholder": note.label}  # phones have no room for the label

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        outcome, _colon, data["why"] = data.get("outcome", "").partition(":")
        data["outcome"] = outcome
        for name in set().union(*self.ASKED.values()) - self.ASKED.get(outcome, set()):
            self.errors.pop(name, None)
            data[name] = None
        sent_at, seen = self.data.get("shown_at", ""), self.data.getlist("seen")
        is_ours = data.get("shown_at") and shown.is_sealed(self.claim_id, sent_at, seen, data.get("seal", ""))
        if not is_ours and "seen" not in self.errors:
            self.add_error("seen", OLD_PAGE)  # which forgets them, too
        if outcome == self.CANCEL:
            if not data["why"]:
                self.add_error("details", _("Choose why the order is canceled."))
            _ask_for_words(self)
        elif outcome in self.CALLBACKS and data.get("seen"):
            self._clean_callback(self.CALLBACKS[outcome])
        elif outcome == Outcome.HANDED_OVER and not (data["why"] or data.get("handover_reason")):
            self.add_error("handover_reason", _("Say why you are handing the customer over."))
        elif outcome == Outcome.SKIPPED and not (data["why"] or data.get("skip_reason")):
            self.add_error("skip_reason", _("Say why you are skipping the customer."))
        if data.get("order") and data.get("seen") and data["order"] not in data["seen"]:
            self.add_error(None, OLD_PAGE)
        return data

    def _clean_callback(self, preset: str | None) -> None:
        """Put the time of the promised call into `at`.

        A preset is the time on its button, in the hours as they are now. Of a page that does not send it, it is counted
        from when the page was shown.
        """
        now, at, shown_at = timezone.now(), self.cleaned_data.get("at"), self.cleaned_data.get("shown_at")
        if preset and (shown_at is None or abs(now - shown_at) > OLDEST_PAGE):
            self.add_error(None, OLD_PAGE)
            return
        windows = hours.of_customer(self.cleaned_data["seen"], FARTHEST_CALLBACK.days + 1)
        if preset and shown_at:
            at = self.cleaned_data.get("tomorrow") or planning.presets(shown_at, windows).get(preset)
        if preset and (at is None or at <= now or not planning.may_call(at, windows)):
            self.add_error("at", _("This time can no longer be chosen. Choose another."))
        elif at is None or not now < at < now + FARTHEST_CALLBACK:
            self.add_error("at", _("Choose a time within the next 90 days."))
        elif not planning.may_call(at, windows):
            self.add_error("at", _hours_of(at, windows))
        self.cleaned_data["at"] = at

    @property
    def may_need_asking(self) -> bool:
        """Whether an order is being confirmed without having been asked about."""
        data = self.cleaned_data
        return data["outcome"] == self.CONFIRM and data["asked"] != data["order"]

    @property
    def is_flagged(self) -> bool:
        """Whether an order is being canceled as a duplicate, as the page had flagged it."""
        data = self.cleaned_data
        return data["why"] == CancelReason.DUPLICATE and str(data["order"]) in self.data.getlist("flagged")

    @property
    def written(self) -> str:
        """Everything that was typed in words, also in panels that are closed, to be shown again."""
        names = ("details", "handover_reason", "skip_reason", "note")
        return "\n".join(filter(None, (self.data.get(name) for name in names)))

    @property
    def seen_versions(self) -> dict[UUID, int]:
        """The versions that the page showed; empty when they cannot be read or its seal is not ours."""
        return getattr(self, "cleaned_data", {}).get("seen") or {}

    @property
    def screen(self) -> decisions.Screen:
        """The screen whose button was pressed."""
        return decisions.Screen(self.claim_id, self.agent, self.cleaned_data["seen"], self.cleaned_data["shown_at"])

    @property
    def press_id(self) -> UUID:
        """The note's id: the same for a form that is sent twice, another for anything else that is said on it."""
        data = self.cleaned_data
        typed = ("order", "at", "to", "note", "details", "handover_reason", "skip_reason")
        said = "\0".join([self.data["outcome"], *(str(data[name]) for name in typed)])
        return lifecycle.derived_id(data["note_id"], said)

    @property
    def next_order(self) -> UUID | None:
        """The order to choose after the decided one; None: the first."""
        ids = list(self.cleaned_data["seen"])
        left = ids[ids.index(self.cleaned_data["order"]) + 1 :]
        return left[0] if self.cleaned_data["outcome"] in (self.CONFIRM, self.CANCEL) and left else None

    def call(self) -> lifecycle.Call:
        """For an outcome that decides nothing: what came of the call to the customer."""
        data = self.cleaned_data
        outcome, is_callback = data["outcome"], data["outcome"] in self.CALLBACKS
        to = call_words.assigned_to(data["to"].display_name) if data["to"] else ""
        typed = {Outcome.HANDED_OVER: data["handover_reason"], Outcome.SKIPPED: data["skip_reason"]}.get(outcome)
        return lifecycle.Call(
            self.agent,
            Outcome.CALLBACK if is_callback else Outcome(outcome),
            note="\n".join(filter(None, [to, data["why"], typed, data["note"]])),
            note_id=self.press_id,
            callback_at=data["at"] if is_callback else None,
        )


def _hours_of(at: datetime, windows: hours.Windows) -> str:
    """The calling hours of the day of `at`, a time outside of them."""
    theirs = [
        f"{formats.time_format(timezone.localtime(window.opens_at), 'H:i')}–"
        f"{formats.time_format(timezone.localtime(window.closes_at), 'H:i')}"
        for window in windows
        if timezone.localtime(window.opens_at).date() == timezone.localtime(at).date()
    ]
    if not theirs:
        return _("No calls are made on that day. Choose another day.")
    said = _("Calling hours on that day are %(hours)s. Choose a time within them.")
    return said % {"hours": listed(theirs)}

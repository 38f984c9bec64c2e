"""What the call screen and the page for editing ask. A form gives a value; its view makes the one call with it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from agents.desk import decisions, planning
from agents.desk.decisions import CancelReason
from codservice.accounts.models import User
from codservice.form_fields import AmountField, FreeText, QuantityField, Words
from orders import lifecycle, regions
from orders.models import CallNote, Order, OrderItem

Outcome = CallNote.Outcome
FARTHEST_CALLBACK = timedelta(days=90)
MAX_DETAILS = Order._meta.get_field("cancel_reason").max_length - 40  # room for the reason before it
MAX_NOTE = CallNote._meta.get_field("note").max_length - 201  # room for a reason before it
OLD_PAGE = _("This page is too old to be sent. Read it again, then repeat it.")
AT_WIDGET = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
NOTE_WIDGET = forms.Textarea(attrs={"rows": 2, "dir": "auto"})


class SeenField(forms.Field):
    """The versions of the orders on the page: values `<order id>:<version>`, as many as there are orders."""

    widget = forms.MultipleHiddenInput
    default_error_messages = {"required": OLD_PAGE}

    def to_python(self, value: Any) -> dict[UUID, int]:
        try:
            pairs = [text.split(":") for text in value or ()]
            return {UUID(order_id): int(version[:9]) for order_id, version in pairs}
        except ValueError:
            raise ValidationError(OLD_PAGE) from None


class OutcomeForm(forms.Form):
    """What came of a call: one of the buttons, with what it asks for. The same `note_id` sent twice is written once.

    Confirm and cancel are about the order that is chosen; everything else is about the customer.
    """

    CONFIRM, CANCEL = "confirm", "cancel"
    # Buttons for the times that customers ask for most → the names of `planning.presets`; None: the time in `at`.
    CALLBACKS = {
        "callback_hour": "hour",
        "callback_evening": "evening",
        "callback_tomorrow": "tomorrow",
        "callback": None,
    }
    OUTCOMES = [
        CONFIRM, CANCEL, *(outcome.value for outcome in planning.SILENT), Outcome.WRONG_NUMBER, *CALLBACKS,
        Outcome.HANDED_OVER, Outcome.SKIPPED,
    ]  # fmt: skip

    outcome = forms.ChoiceField(choices=[(name, name) for name in OUTCOMES])
    order = forms.UUIDField()
    seen = SeenField()
    note_id = forms.UUIDField(widget=forms.HiddenInput)
    note = FreeText(label=_("Note"), required=False, max_length=MAX_NOTE, widget=NOTE_WIDGET)
    why = forms.ChoiceField(
        label=_("Why?"), required=False, choices=[("", _("Choose a reason")), *CancelReason.choices]
    )
    details = FreeText(label=_("In other words"), required=False, max_length=MAX_DETAILS, widget=forms.TextInput)
    at = forms.DateTimeField(label=_("At a chosen time"), required=False, widget=AT_WIDGET)
    to = forms.ModelChoiceField(None, label=_("To whom?"), required=False, empty_label=_("A supervisor"))
    handover_reason = FreeText(label=_("Why?"), required=False, max_length=200, widget=forms.TextInput)
    skip_reason = FreeText(label=_("Why?"), required=False, max_length=200, widget=forms.TextInput)
    pause = forms.BooleanField(label=_("Pause after this call"), required=False)

    def __init__(self, *args: Any, agent: User, **kwargs: Any) -> None:
        self.agent = agent
        kwargs = {"auto_id": "call-%s", "label_suffix": "", **kwargs}
        super().__init__(*args, initial={"note_id": uuid7()}, **kwargs)
        # One query, when the page shows them.
        workers = User.objects.filter(is_active=True, groups__permissions__codename="work_order")
        self.fields["to"].queryset = workers.exclude(pk=agent.pk).distinct().order_by("first_name", "username")
        self.fields["to"].label_from_instance = lambda colleague: colleague.display_name
        self.fields["note"].widget.attrs["data-key"] = "n"
        for name in ("note", "details", "handover_reason", "skip_reason"):
            self.fields[name].widget.attrs |= {"dir": "auto", "autocomplete": "off"}

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        outcome = data.get("outcome")
        if outcome == self.CANCEL:
            if not data.get("why"):
                self.add_error("why", _("Choose why the order is canceled."))
            elif data["why"] == CancelReason.OTHER and not data.get("details"):
                self.add_error("details", _("Say why the order is canceled."))
        elif outcome in self.CALLBACKS:
            self._clean_callback(self.CALLBACKS[outcome])
        elif outcome == Outcome.HANDED_OVER and not data.get("handover_reason"):
            self.add_error("handover_reason", _("Say why you hand the customer over."))
        elif outcome == Outcome.SKIPPED and not data.get("skip_reason"):
            self.add_error("skip_reason", _("Say why you skip the customer."))
        if data.get("order") and data.get("seen") and data["order"] not in data["seen"]:
            self.add_error("seen", OLD_PAGE)
        return data

    def _clean_callback(self, preset: str | None) -> None:
        """Put the time of the promised call into `at`."""
        now = timezone.now()
        at = planning.presets(now).get(preset) if preset else self.cleaned_data.get("at")
        if at is None or not now < at < now + FARTHEST_CALLBACK:
            self.add_error("at", _("Choose a time within the next 90 days."))
        self.cleaned_data["at"] = at

    @property
    def seen_versions(self) -> dict[UUID, int]:
        """What the page showed, as far as it can be read."""
        return getattr(self, "cleaned_data", {}).get("seen") or {}

    def decision(self) -> decisions.Decision:
        """With CONFIRM and CANCEL: about which order, as it was seen."""
        data = self.cleaned_data
        return decisions.Decision(data["order"], data["seen"][data["order"]], data["note"], data["note_id"])

    def call(self) -> lifecycle.Call:
        """With every other outcome: what came of the call to the customer."""
        data = self.cleaned_data
        outcome, is_callback = data["outcome"], data["outcome"] in self.CALLBACKS
        reasons = {Outcome.HANDED_OVER: data["handover_reason"], Outcome.SKIPPED: data["skip_reason"]}
        return lifecycle.Call(
            self.agent,
            Outcome.CALLBACK if is_callback else Outcome(outcome),
            note="\n".join(filter(None, [reasons.get(outcome), data["note"]])),
            note_id=data["note_id"],
            callback_at=data["at"] if is_callback else None,
        )


class EditForm(forms.Form):
    """What may be changed in a pending order, at the version that the agent saw."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    customer_name = Words(label=_("Name"), max_length=255)
    customer_address = FreeText(label=_("Address"), max_length=500, widget=forms.Textarea(attrs={"rows": 2}))
    wilaya = Words(label=_("Wilaya"), max_length=255)
    commune = Words(label=_("Commune"), max_length=255, required=False)
    shipping_fee = AmountField(label=_("Shipping fee"), max_length=20)

    def __init__(self, *args: Any, order: Order, items: Sequence[OrderItem], **kwargs: Any) -> None:
        self.order, self.items = order, items
        initial = {
            "version": order.version,
            "customer_name": order.customer_name,
            "customer_address": order.customer_address,
            "wilaya": regions.wilaya(order.wilaya_code).name,
            "commune": regions.commune(order.commune_code).name if order.commune_code else order.customer_commune,
            "shipping_fee": f"{order.shipping_fee:f}".removesuffix(".00"),
        }
        super().__init__(*args, initial=initial, auto_id="edit-%s", label_suffix="", **kwargs)
        for name in ("customer_name", "customer_address", "wilaya", "commune"):
            self.fields[name].widget.attrs |= {"dir": "auto", "autocomplete": "off"}
        self.fields["shipping_fee"].widget.attrs |= {"inputmode": "decimal", "dir": "ltr", "autocomplete": "off"}
        for item in items:
            label = _("Quantity of %(product)s") % {"product": item.product_name}
            self.fields[f"quantity-{item.id}"] = QuantityField(
                label=label, min_value=0, max_value=10_000, initial=item.quantity
            )
            label = _("Remove %(product)s") % {"product": item.product_name}
            self.fields[f"remove-{item.id}"] = forms.BooleanField(label=label, required=False)

    @property
    def lines(self) -> list[tuple[OrderItem, forms.BoundField, forms.BoundField]]:
        return [(item, self[f"quantity-{item.id}"], self[f"remove-{item.id}"]) for item in self.items]

    def clean(self) -> dict[str, Any]:
        """Both regions, of which one depends on the other."""
        data = self.cleaned_data
        try:
            if "wilaya" in data:
                data["wilaya"] = wilaya = regions.find_wilaya(data["wilaya"])
                if data.get("commune"):
                    data["commune"] = regions.find_commune(data["commune"], wilaya.code)
        except regions.NotFound as error:
            name = "wilaya" if isinstance(data["wilaya"], str) else "commune"
            self.add_error(name, _place_not_found(name, self.data[name], error.suggestions))
        return data

    def changes(self) -> lifecycle.Edit:
        """What is different from the order. A place that is the same in other words is no change."""
        data, order = self.cleaned_data, self.order
        wilaya, commune = data["wilaya"], data["commune"]
        quantities = {item.id: 0 if data[f"remove-{item.id}"] else data[f"quantity-{item.id}"] for item in self.items}
        edit = lifecycle.Edit(
            customer_name=data["customer_name"],
            customer_address=data["customer_address"],
            shipping_fee=data["shipping_fee"],
            quantities=quantities,
        )
        if wilaya.code != order.wilaya_code:
            edit.customer_wilaya, edit.wilaya_code = str(wilaya), wilaya.code
        if wilaya.code != order.wilaya_code or (commune.code if commune else None) != order.commune_code:
            edit.customer_commune, edit.commune_code = str(commune), commune.code if commune else None
        return edit


def _place_not_found(name: str, text: str, suggestions: tuple[str, ...]) -> str:
    said = {"text": text, "names": ", ".join(suggestions)}
    if name == "wilaya":
        if suggestions:
            return _("“%(text)s” is no wilaya. Did you mean one of these: %(names)s?") % said
        return _("“%(text)s” is no wilaya.") % said
    if suggestions:
        return _("“%(text)s” is no commune of this wilaya. Did you mean one of these: %(names)s?") % said
    return _("“%(text)s” is no commune of this wilaya.") % said

"""When and how often each merchant's customers are called."""

from datetime import time
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.console import show
from agents.desk import scripts
from agents.models import CallingHours, CallingRules
from agents.supervision import for_supervisors
from codservice import values
from codservice.accounts import security_log
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.bidi import unturned
from codservice.concurrent_edits import RowSinceShown
from codservice.form_fields import FreeText
from codservice.i18n_tags import listed
from codservice.long_lists import BoundedPaginator
from orders.models import Order, Status

PER_PAGE = 50
CLOCKS = {name: forms.TimeInput(attrs={"type": "time"}, format="%H:%M") for name in CallingHours.HOURS}
MAX_SCRIPT = CallingRules._meta.get_field("script_fr").max_length


def called_merchants() -> QuerySet[Account]:
    """The merchants whose customers are called or may come to be: after one is deactivated, its orders still wait."""
    waiting = Order.live.filter(account=OuterRef("pk"), status=Status.PENDING)
    return Account.objects.filter(Q(is_active=True) | Exists(waiting), live=None)


class HoursInOrder(forms.ModelForm):
    """Checks that calls begin before they end, and that a break lies in between."""

    out_of_order = gettext_lazy(
        "Calls must end after they begin. For midnight, enter 23:59. For 21:00 to 01:00, enter 00:00 to 23:59 with a "
        "break from 01:00 to 21:00. Such hours can have no other break."
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        opens_at, closes_at, starts, ends = (data.get(name) for name in CallingHours.HOURS)
        can_be_read = not self.errors.keys() & {"break_from", "break_until"}
        if opens_at and closes_at and opens_at >= closes_at:
            self.add_error("closes_at", str(self.out_of_order))
        elif can_be_read and (starts is None) != (ends is None):
            self.add_error("break_until" if starts else "break_from", _("A break needs a beginning and an end."))
        elif starts and ends and starts >= ends:
            self.add_error("break_until", _("The break must end after it begins."))
        elif starts and ends and not (opens_at or time.min) < starts < ends < (closes_at or time.max):
            self.add_error("break_from", _("The break must lie within the calling hours."))
        return data

    def validate_constraints(self) -> None:
        """Does nothing: `clean` reports errors by field, and the database still enforces the constraints."""


class HoursForm(HoursInOrder, RowSinceShown):
    """When and how often to call: the rules that merchants can set too (`agents.account_pages`)."""

    days_off = forms.TypedMultipleChoiceField(
        label=gettext_lazy("Days off"),
        required=False,
        coerce=int,
        choices=CallingRules.DAYS,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Nobody is called on these days."),
    )

    class Meta:
        model = CallingRules
        fields: tuple[str, ...] = (
            *CallingHours.HOURS, "retry_minutes", "most_attempts", "days_off", "keeps_holidays",
        )  # fmt: skip
        widgets = CLOCKS

    @cached_property
    def changed_data(self) -> list[str]:
        """All hours count as changed if one is: whoever changes the opening means the end as the page showed it.

        So what others have meanwhile made of any hour counts too.
        """
        changed, hours = set(super().changed_data), set(CallingHours.HOURS)
        return list(changed | hours if changed & hours else changed)

    def clean_days_off(self) -> list[int]:
        days = sorted(self.cleaned_data["days_off"])
        if len(days) == len(CallingRules.DAYS):
            raise ValidationError(_("Leave at least one day on which customers are called."))
        return days


class ScriptForm(RowSinceShown):
    """What agents say on the phone, which merchants can write too (`agents.account_pages`)."""

    script_fr = FreeText(label=gettext_lazy("What agents say, in French"), required=False, max_length=MAX_SCRIPT)
    script_ar = FreeText(label=gettext_lazy("What agents say, in Arabic"), required=False, max_length=MAX_SCRIPT)

    class Meta:
        model = CallingRules
        fields: tuple[str, ...] = ("script_fr", "script_ar")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for number, name, direction in ((1, "script_fr", "ltr"), (2, "script_ar", "rtl")):
            words = " ".join(f"{{{words[number]}}}" for words in scripts.PLACEHOLDERS.values())
            self.fields[name].help_text = scripts.HINT % {"words": words}
            self.fields[name].widget.attrs |= {"rows": 5, "dir": direction}


class RulesForm(HoursForm, ScriptForm):
    class Meta(HoursForm.Meta):
        fields = (*HoursForm.Meta.fields, *ScriptForm.Meta.fields)


_NOTED_AS = {Action.RULES: HoursForm.Meta.fields, Action.SCRIPT: ScriptForm.Meta.fields}


def save(form: RowSinceShown, account: Account) -> None:
    """Save what the person changed of the merchant's rules or script. The security log says which of the two it was."""
    with transaction.atomic():
        CallingRules.objects.update_or_create(account=account, defaults=form.changes)
        for action, fields in _NOTED_AS.items():
            if form.changes.keys() & fields:
                security_log.note_account(action, account)


def warn_of_placeholders(request: HttpRequest, form: ScriptForm) -> None:
    """Tell the person of placeholders that do not exist. They may be meant, so nothing is refused."""
    texts = (form.cleaned_data[name] for name in ScriptForm.Meta.fields)
    if unknown := dict.fromkeys(word for text in texts for word in scripts.not_filled_in(text)):
        text = _("Agents will read this as it stands, because it is none of the words that are filled in: %(words)s.")
        messages.warning(request, text % {"words": listed(map(unturned, unknown))})


@for_supervisors
def page(request: HttpRequest) -> HttpResponse:
    typed = values.looked_for(request.GET.get("q", ""))
    accounts = called_merchants().filter(name__icontains=typed).select_related("calling_rules")
    found = BoundedPaginator(accounts.order_by("name", "id"), PER_PAGE).get_page(request.GET.get("p"))
    for account in found:
        account.rules = getattr(account, "calling_rules", None) or CallingRules(account=account)
    return show(request, "agents/supervision/rules.html", title=_("Calling rules"), accounts=found, typed=typed)


@for_supervisors
def edit(request: HttpRequest, account_id: UUID) -> HttpResponse:
    account = get_object_or_404(Account, id=account_id, live=None)
    form = RulesForm(request.POST or None, instance=CallingRules.of(account_id))
    if form.is_valid():
        save(form, account)
        messages.success(request, _("The rules of %(name)s are saved.") % {"name": unturned(account.name)})
        warn_of_placeholders(request, form)
        return redirect("admin:rules")
    title = _("Calling rules of %(name)s") % {"name": unturned(account.name)}
    status = 422 if form.errors else 200
    return show(request, "agents/supervision/rules_of.html", title=title, account=account, form=form, status=status)

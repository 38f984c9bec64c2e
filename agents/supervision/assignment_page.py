"""One agent's assignment: the merchants they serve and the languages they speak. Choosing none means all."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.console import show
from agents.desk import assignment
from agents.models import Assignment, Language
from agents.supervision import access, for_supervisors
from agents.supervision.rules import called_merchants
from codservice import values
from codservice.accounts.models import Account
from codservice.bidi import unturned
from codservice.concurrent_edits import SinceShown

MOST = 200  # merchants of one agent; an agent with more should serve all
MOST_FOUND = 50  # merchants offered besides the chosen ones


class AssignForm(SinceShown):
    """Merchants that are already chosen can stay chosen even after they closed their account."""

    merchants = forms.ModelMultipleChoiceField(None, required=False)
    languages = forms.MultipleChoiceField(
        label=gettext_lazy("Languages"),
        required=False,
        choices=Language.choices,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy(
            "Choose none for all. A merchant's languages are those of its call script. A merchant without one "
            "is served by everybody."
        ),
    )

    def __init__(self, *args: Any, rule: Assignment, **kwargs: Any) -> None:
        initial = {"merchants": [str(id_) for id_ in rule.merchants], "languages": rule.languages}
        super().__init__(*args, initial=initial, **kwargs)
        chosen = {*rule.merchants, *self.initial["merchants"]}
        self.fields["merchants"].queryset = called_merchants() | Account.objects.filter(live=None, id__in=chosen)

    def clean_merchants(self) -> set[UUID]:
        chosen = {account.pk for account in self.cleaned_data["merchants"]}
        if len(chosen) > MOST:
            raise ValidationError(_("Choose at most %(most)d merchants, or none for all.") % {"most": MOST})
        return chosen


@for_supervisors
def page(request: HttpRequest, user_id: UUID) -> HttpResponse:
    """For the agents whom the supervisor manages. Its search button saves nothing and keeps the choices."""
    agent = get_object_or_404(access.managed_by(request.user), pk=user_id)
    rule = assignment.of(agent)
    form = AssignForm(request.POST if request.method == "POST" else None, rule=rule)
    if form.is_valid() and "search" not in request.POST:
        assignment.set_served(agent, **form.changes)
        messages.success(request, _("The rules of %(name)s are saved.") % {"name": unturned(agent.display_name)})
        return redirect("admin:person", user_id)
    # Taken from the request: when the form is refused, the choices must stay, since none would mean all.
    chosen = values.uuids_in(request.POST.getlist("merchants")) if form.is_bound else rule.merchants
    typed = values.looked_for(request.POST.get("q", ""))
    known = form.fields["merchants"].queryset.order_by("name", "id")
    return show(
        request,
        "agents/supervision/serves.html",
        title=_("Who %(name)s serves") % {"name": unturned(agent.display_name)},
        person=agent,
        form=form,
        typed=typed,
        chosen=known.filter(id__in=chosen),
        found=known.filter(name__icontains=typed).exclude(id__in=chosen)[:MOST_FOUND],
        most_found=MOST_FOUND,
        status=422 if form.errors else 200,
    )

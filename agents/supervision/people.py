"""The agents' list with what they are doing, a page for each, and the making of new ones."""

from copy import copy
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import UsernameField
from django.core.exceptions import ValidationError
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from agents.console import show
from agents.desk import assignment
from agents.models import Claim
from agents.supervision import access, for_supervisors
from codservice import days
from codservice.accounts import one_time_codes
from codservice.accounts.models import User
from codservice.accounts.staff import AGENTS, NAMES, SUPERVISORS, make
from codservice.bidi import unturned
from codservice.concurrent_edits import RowSinceShown
from codservice.form_fields import Form, WrittenText
from codservice.long_lists import BoundedPaginator
from orders.models import CallNote, CallState, Order, Status

PER_PAGE = 200


class PersonForm(Form, forms.ModelForm):
    """A new person. Only operators can choose a role."""

    role = forms.ChoiceField(
        label=gettext_lazy("Role"),
        choices=[(AGENTS, gettext_lazy("Agent")), (SUPERVISORS, gettext_lazy("Supervisor"))],
    )

    class Meta:
        model = User
        fields = ("username", *NAMES)
        field_classes = {"username": UsernameField, **dict.fromkeys(NAMES, WrittenText)}

    def __init__(self, *args: Any, by: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].widget.attrs |= {"dir": "ltr", "autocomplete": "off", "autocapitalize": "none"}
        self.fields["first_name"].required = True
        if not by.is_superuser:
            del self.fields["role"]


class NamesForm(RowSinceShown):
    """What an existing person is called."""

    class Meta:
        model = User
        fields = NAMES
        field_classes = dict.fromkeys(NAMES, WrittenText)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["first_name"].required = True


@for_supervisors
def page(request: HttpRequest) -> HttpResponse:
    managed = access.managed_by(request.user).select_related("assignment")
    people = BoundedPaginator(managed.order_by("-is_active", "first_name", "username"), PER_PAGE).get_page(
        request.GET.get("p")
    )
    held = {claim.agent_id: claim for claim in Claim.objects.unexpired().order_by("-claimed_at")}
    # Read along call_note_by_time.
    today = days.start_of(days.today())
    noted = CallNote.objects.filter(created_at__gte=today, outcome__in=CallNote.CALLS, agent__in=list(people))
    calls = dict(noted.values_list("agent").annotate(Count("id")))
    rows = [(person, held.get(person.id), calls.get(person.id, 0)) for person in people]
    context = {"rows": rows, "people": people, "nobodys": assignment.nobodys()}
    return show(request, "agents/supervision/people.html", title=_("Agents"), **context)


@for_supervisors
@sensitive_variables("password")
def new(request: HttpRequest) -> HttpResponse:
    form = PersonForm(request.POST if request.method == "POST" else None, by=request.user)
    if form.is_valid():
        data = form.cleaned_data
        names = {name: data[name] for name in NAMES}
        try:
            person, password = make(data["username"], group=data.get("role", AGENTS), **names)
        except ValidationError as error:
            form.add_error(None, error)
        else:
            return _tell(request, person, password, status=201)
    is_taken = form.has_error("username", "unique")
    managed = access.managed_by(request.user).filter(username__iexact=form.instance.username)
    return show(
        request,
        "agents/supervision/person_new.html",
        title=_("New agent"),
        form=form,
        namesake=managed.first() if is_taken else None,
        status=422 if form.errors else 200,
    )


@for_supervisors
@sensitive_variables("password")
def person(request: HttpRequest, user_id: UUID) -> HttpResponse:
    """One person. People whom the supervisor does not manage give 404, like unknown ones."""
    person = get_object_or_404(access.managed_by(request.user), pk=user_id)
    action = request.POST.get("action") if request.method == "POST" else None
    name = {"name": unturned(person.display_name)}
    form = NamesForm(request.POST if action == "names" else None, instance=copy(person))
    try:
        match action:
            case "password" | "reactivate":
                password = access.give_password(
                    person,
                    by=request.user,
                    replaces=request.POST.get("replaces"),
                    reactivates=action == "reactivate",
                )
                return _tell(request, person, password)
            case "deactivate":
                access.deactivate(person, by=request.user)
                messages.success(request, _("%(name)s is signed out and can no longer sign in.") % name)
                return redirect("admin:person", user_id)
            case "codes":
                access.forget_codes(person, by=request.user)
                messages.success(request, _("%(name)s now signs in with the password only.") % name)
                return redirect("admin:person", user_id)
            case "names" if form.is_valid():
                access.rename(person, by=request.user, **form.changes)
                messages.success(request, _("The name is saved."))
                return redirect("admin:person", user_id)
    except (access.PersonChanged, access.PasswordChanged) as refused:
        messages.warning(request, refused.message)
        return redirect("admin:person", user_id)
    return show(
        request,
        "agents/supervision/person.html",
        title=person.display_name,
        person=person,
        rule=assignment.of(person),
        promised=Order.live.filter(status=Status.PENDING, call_state=CallState.CALLBACK, callback_agent=person).count(),
        has_codes=one_time_codes.are_on(person),
        replaces=access.mark_of_password(person),
        form=form,
        status=422 if form.errors else 200,
    )


def _tell(request: HttpRequest, person: User, password: str, *, status: int = 200) -> HttpResponse:
    """Show the password, in this answer only."""
    return show(
        request,
        "agents/supervision/password.html",
        title=_("Password of %(name)s") % {"name": unturned(person.display_name)},
        person=person,
        password=password,
        status=status,
    )

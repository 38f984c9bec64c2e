"""The operators' pages about merchants, keys, people, roles and the security log. None shows a secret or its hash.

Changes that have rules are made by `merchants`, `ApiKey` and `User`."""

import re
import shlex
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.contrib.postgres.search import SearchQuery
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Prefetch, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy
from django.views.decorators.debug import sensitive_variables

from codservice.accounts import merchants, one_time_codes, security_log, staff
from codservice.accounts.models import LOG_WORDS, Account, ApiKey, SecurityEntry, User
from codservice.accounts.operator_forms import (
    MerchantChangeForm,
    NewMerchantForm,
    NewPersonForm,
    PasswordOfAnotherForm,
    PersonForm,
)
from codservice.accounts.operator_lists import Choice, LongList, MerchantFilter, ReadOnly, UntilDay
from codservice.accounts.security_log import Action, Outcome
from codservice.bidi import unturned

MOST_ON_PAGE = 50  # of a merchant's keys and people, or a role's people, on a page
NEWEST = 10  # log entries on a merchant's page
WHOSE_KEY = ("account__holder", "account__live__holder")  # must be active for the key to work
_BETWEEN_WORDS = re.compile(r"[\s./@:_&?=<>+\-'\"\\|!()*,;…→]+")


# --- Merchants -------------------------------------------------------------------------------------------------------


class StateFilter(Choice):
    title = gettext_lazy("state")
    parameter_name = "state"
    offered = {
        "active": (gettext_lazy("Active"), Q(is_active=True)),
        "closed": (gettext_lazy("Deactivated"), Q(is_active=False)),
    }


@admin.register(Account)
class AccountAdmin(ReadOnly):
    """Merchants. They are made and changed by `merchants`; their test twins are their holders' business."""

    change_list_template = "operators/merchants.html"
    change_form_template = "operators/merchant.html"
    list_filter = (StateFilter,)
    search_fields = ("name", "holder__email", "holder__username")
    search_help_text = gettext_lazy("Part of the name, or of the holder's e-mail address.")
    ordering = ("name", "id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        return super().get_queryset(request).filter(live=None).select_related("holder")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    @sensitive_variables("password")
    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = NewMerchantForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                account, password = merchants.make(**form.cleaned_data)
            except ValidationError as error:
                form.add_error(None, error)
            else:
                made = {"title": _("Password of %(name)s") % {"name": unturned(account.name)}, "password": password}
                return self.answer(request, "operators/merchant_made.html", status=201, row=account, **made)
        status = 422 if form.errors else 200
        return self.answer(request, "operators/merchant_new.html", status=status, title=_("New merchant"), form=form)

    def page_of(self, row: Account) -> dict[str, Any]:
        keys = ApiKey.objects.filter(Q(account=row) | Q(account__live=row)).select_related(*WHOSE_KEY).defer("digest")
        return {
            "form": self._form(row),
            "members": row.memberships.select_related("user").order_by("created_at")[:MOST_ON_PAGE],
            "keys": keys.annotate(now=Now()).order_by("-created_at")[:MOST_ON_PAGE],
            "entries": row.security_entries.order_by("-created_at", "-id")[:NEWEST],
        }

    def act(self, request: HttpRequest, row: Account) -> HttpResponse:
        match request.POST.get("action"):
            case "change":
                form = self._form(row, request.POST)
                if not form.is_valid():
                    return self.show(request, row, form=form, status=422)
                merchants.change(row.pk, **form.changes)
                messages.success(request, _("The changes are saved."))
            case "deactivate":
                merchants.deactivate(row.pk)
                messages.success(
                    request, _("%(name)s is deactivated: its keys do not work.") % {"name": unturned(row.name)}
                )
            case "reactivate":
                merchants.reactivate(row.pk)
                messages.success(request, _("%(name)s is active again.") % {"name": unturned(row.name)})
            case _other:
                raise PermissionDenied
        return redirect("admin:accounts_account_change", row.pk)

    def _form(self, row: Account, data: Any = None) -> MerchantChangeForm:
        return MerchantChangeForm(data, initial={"name": row.name, "rate_limit": row.rate_limit})


# --- Keys ------------------------------------------------------------------------------------------------------------


_IS_SHUT = (
    Q(account__is_active=False)
    | Q(account__holder__is_active=False)
    | Q(account__live__is_active=False)
    | Q(account__live__holder__is_active=False)
)


class KeyStateFilter(Choice):
    title = gettext_lazy("state")
    parameter_name = "state"
    offered = {
        "works": (gettext_lazy("Works"), ApiKey.WORKS & ~_IS_SHUT),
        "refused": (pgettext_lazy("key", "Refused"), ApiKey.WORKS & _IS_SHUT),
        "expired": (gettext_lazy("Expired"), Q(expires_at__lte=Now(), revoked_at=None)),
        "revoked": (gettext_lazy("Revoked"), Q(revoked_at__isnull=False)),
    }


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnly):
    """Keys, to look at and revoke. Merchants make them on their pages, or `create_api_key` does."""

    change_list_template = "operators/keys.html"
    change_form_template = "operators/key.html"
    list_filter = (KeyStateFilter, MerchantFilter)
    search_fields = ("name", "prefix", "account__name", "account__holder__email")
    search_help_text = gettext_lazy("Part of the key's name, its first characters, or the merchant.")
    ordering = ("-created_at", "-id")
    actions = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        keys = super().get_queryset(request).select_related(*WHOSE_KEY)
        return keys.defer("digest").annotate(now=Now())

    @admin.action(description=gettext_lazy("Revoke the chosen keys"), permissions=["view"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> HttpResponse | None:
        """Ask first, because Enter submits a list's choice too, and revoking cannot be undone."""
        chosen = list(keys.filter(revoked_at=None))
        if not chosen:
            messages.warning(request, _("The chosen keys have already been revoked."))
            return None
        if "sure" not in request.POST:
            return self.answer(request, "operators/keys_revoke.html", title=_("Revoke the chosen keys"), keys=chosen)
        for key in chosen:
            key.revoke()
        text = ngettext("%(count)d key is revoked.", "%(count)d keys are revoked.", len(chosen))
        messages.success(request, text % {"count": len(chosen)})
        return None

    def act(self, request: HttpRequest, row: ApiKey) -> HttpResponse:
        if request.POST.get("action") != "revoke":
            raise PermissionDenied
        row.revoke()
        messages.success(request, _("“%(name)s” is revoked.") % {"name": unturned(row.name)})
        return redirect("admin:accounts_apikey_change", row.pk)


# --- People and roles ------------------------------------------------------------------------------------------------


class RoleFilter(Choice):
    title = gettext_lazy("role")
    parameter_name = "role"
    offered = {
        "operator": (gettext_lazy("Operators"), Q(is_superuser=True)),
        "supervisor": (gettext_lazy("Supervisors"), Q(groups__name=staff.SUPERVISORS)),
        "agent": (gettext_lazy("Agents"), Q(groups__name=staff.AGENTS)),
        "holder": (gettext_lazy("Account holders"), Q(account__isnull=False)),
        "colleague": (gettext_lazy("Merchants' colleagues"), Q(membership__isnull=False)),
    }


@admin.register(User)
class PersonAdmin(LongList, UserAdmin):
    """People are deactivated, never deleted, because their names stay in the histories of orders."""

    change_list_template = "operators/people.html"
    add_form_template = "operators/person_new.html"
    change_form_template = "operators/person.html"
    change_user_password_template = "operators/person_password.html"  # noqa: S105  (a page's name)
    form = PersonForm
    add_form = NewPersonForm
    change_password_form = PasswordOfAnotherForm
    list_filter = (RoleFilter, StateFilter)
    search_help_text = gettext_lazy("Part of the username, name or e-mail address.")
    ordering = ("username",)
    filter_horizontal = ()
    fieldsets = ((None, {"fields": PersonForm.Meta.fields}),)
    add_fieldsets = ((None, {"fields": ("username", "password1", "password2")}),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        groups = Prefetch("groups", Group.objects.order_by("name"))
        return super().get_queryset(request).select_related("account", "membership__account").prefetch_related(groups)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        person = context.get("original")
        context["title"] = person.display_name if person else _("New person")
        if person and one_time_codes.are_on(person):
            context["codes_off"] = shlex.join(("manage.py", "turn_codes_off", person.username))
        return super().render_change_form(request, context, *args, **kwargs)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Set another person's password. Operators change their own on a page that asks for the old one."""
        if self.has_change_permission(request) and self.get_object(request, unquote(id)) == request.user:
            return redirect("admin:password_change")
        return super().user_change_password(request, id, form_url)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if not change:
            super().save_model(request, obj, form, change)
            security_log.note_person(Action.PERSON_MADE, obj)
            return
        is_turned = "is_active" in form.changed_data
        if is_turned and not obj.is_active:
            obj.deactivate(form.unknown_password)
        # Nothing else, since the person may have changed their password, or left, after we read them.
        obj.save(update_fields={field.name for field in obj._meta.concrete_fields} & {*form.changed_data})
        if is_turned and obj.is_active:
            security_log.note_person(Action.REACTIVATED, obj)
        names = [name for name in ("username", *staff.NAMES, "email") if name in form.changed_data]
        staff.note_changes(obj, form.kept, {name: getattr(obj, name) for name in names})
        for name in ("is_staff", "is_superuser"):  # changes of groups are noted by a signal
            if name in form.changed_data:
                sign = "+" if getattr(obj, name) else "-"
                security_log.note(Action.ROLE, target=f"{obj.username}: {sign}{name}", target_id=obj.pk)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the roles only if the operator changed them, since they may have changed after the page was read."""
        if not change or "groups" in form.changed_data:
            super().save_related(request, form, formsets, change)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False


admin.site.unregister(Group)


@admin.register(Group)
class RoleAdmin(ReadOnly):
    """Roles, to look at: migrations create them, and the code says what each may do."""

    change_list_template = "operators/roles.html"
    change_form_template = "operators/role.html"
    ordering = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).prefetch_related("permissions")

    def page_of(self, row: Group) -> dict[str, Any]:
        people = row.user_set.order_by("-is_active", "username")[:MOST_ON_PAGE]
        return {"title": _(row.name), "people": people}


# --- The security log ------------------------------------------------------------------------------------------------


class ActionFilter(Choice):
    title = gettext_lazy("action")
    parameter_name = "action"
    offered = {action.value: (action.label, Q(action=action.value)) for action in Action}


class OutcomeFilter(Choice):
    title = gettext_lazy("outcome")
    parameter_name = "outcome"
    offered = {Outcome.REFUSED.value: (Outcome.REFUSED.label, Q(outcome=Outcome.REFUSED.value))}


@admin.register(SecurityEntry)
class SecurityEntryAdmin(ReadOnly):
    """The security log, which operators read and nobody changes."""

    change_list_template = "operators/log.html"
    change_form_template = "operators/log_entry.html"
    list_filter = (ActionFilter, OutcomeFilter, UntilDay, MerchantFilter)
    search_fields = ("actor",)  # shows the search box; `get_search_results` says what is searched
    search_help_text = gettext_lazy("Names, e-mail addresses, keys, IP addresses: the beginnings of words.")
    ordering = ("-created_at", "-id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[SecurityEntry]:
        return super().get_queryset(request).select_related("account")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        words = [f"'{word}':*" for word in _BETWEEN_WORDS.split(search_term[:100].replace("\0", "")) if word]
        if not words:
            return (queryset.none() if search_term.strip() else queryset), False
        found = SearchQuery(" & ".join(words), config="simple", search_type="raw")
        return queryset.alias(words=LOG_WORDS).filter(words=found), False

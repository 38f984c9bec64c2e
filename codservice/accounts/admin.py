"""What operators see of people, accounts and keys. No page shows a secret, not even its hash."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from codservice.accounts.models import Account, ApiKey, User


class PersonForm(UserChangeForm):
    password = None


@admin.register(User)
class PersonAdmin(UserAdmin):
    """People are deactivated, never deleted: their names stay in the orders' histories."""

    form = PersonForm
    list_display = ("username", "display_name", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser", "groups")
    readonly_fields = ("change_password", "last_login", "date_joined")
    filter_horizontal = ("groups",)
    fieldsets = (
        (None, {"fields": ("username", "change_password", "first_name", "last_name", "email")}),
        (_("Role"), {"fields": ("is_active", "is_staff", "groups", "is_superuser")}),
        (_("Dates"), {"fields": ("last_login", "date_joined")}),
    )

    @admin.display(description=_("password"))
    def change_password(self, user: User) -> str:
        address = reverse("admin:auth_user_password_change", args=[user.pk])
        return format_html('<a href="{}">{}</a>', address, _("Set a new password"))

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False


@admin.register(Account)
class AccountAdmin(admin.ModelAdmin):
    """Accounts are made by the command create_account and closed here; their orders stay."""

    list_display = ("name", "holder", "rate_limit", "is_active", "created_at")
    list_select_related = ("holder",)
    list_filter = ("is_active",)
    search_fields = ("name", "holder__email")
    ordering = ("name",)
    fields = ("name", "holder", "rate_limit", "is_active", "created_at")
    readonly_fields = ("holder", "created_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Account | None = None) -> bool:
        return False


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin):
    """Keys to look at and to revoke. Only their account's holder makes them."""

    list_display = ("name", "prefix", "account", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("account",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("name", "prefix", "account__name")
    ordering = ("-created_at",)
    fields = ("account", "name", "prefix", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at")
    actions = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).defer("digest")

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return not lookup.startswith("digest") and super().lookup_allowed(lookup, value, request)

    @admin.action(description=_("Revoke the chosen keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        chosen = list(keys.filter(revoked_at=None))
        for key in chosen:
            key.revoke()
        text = ngettext("%(count)d key is revoked.", "%(count)d keys are revoked.", len(chosen))
        messages.success(request, text % {"count": len(chosen)})

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

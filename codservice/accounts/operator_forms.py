"""The operators' forms: merchants, people, and other people's passwords."""

from typing import Any

from django import forms
from django.contrib.auth import forms as auth_forms
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django.db import transaction
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from codservice import mails
from codservice.accounts import merchants, security_log, sessions, staff
from codservice.accounts.models import Account, Membership, User, unknown_password
from codservice.accounts.security_log import Action
from codservice.concurrent_edits import RowSinceShown, SinceShown
from codservice.form_fields import Form, MailField, WrittenText


class MerchantForm(Form):
    name = WrittenText(label=gettext_lazy("Name"), max_length=Account._meta.get_field("name").max_length)
    rate_limit = forms.IntegerField(
        label=gettext_lazy("Requests per minute and API key"),
        help_text=gettext_lazy("Leave it empty for the service's default limit."),
        required=False,
        min_value=1,
        max_value=merchants.MOST_REQUESTS,
    )


class MerchantChangeForm(SinceShown, MerchantForm):
    """`MerchantForm` for an existing merchant."""


class NewMerchantForm(MerchantForm):
    email = MailField(
        label=gettext_lazy("The holder's e-mail address"),
        help_text=gettext_lazy("They sign in with it."),
        max_length=merchants.MAX_EMAIL,
        widget=forms.EmailInput(attrs={"dir": "ltr", "autocomplete": "off"}),
    )
    field_order = ("name", "email", "rate_limit")


class RolesField(forms.ModelMultipleChoiceField):
    def label_from_instance(self, role: Group) -> str:
        return _(role.name)


class PersonForm(RowSinceShown, auth_forms.UserChangeForm):
    """Who a person is, and what they may do here."""

    password = None
    unknown_password: str | None = None
    """For a person who is shut out. Hashing is slow, so it is made before anything is locked."""
    groups = RolesField(
        label=gettext_lazy("Roles in the call center"),
        queryset=Group.objects.order_by("name"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta(auth_forms.UserChangeForm.Meta):
        model = User
        fields = (
            "username", "first_name", "last_name", "email", "is_active", "is_staff", "groups", "is_superuser",
        )  # fmt: skip
        field_classes = auth_forms.UserChangeForm.Meta.field_classes | dict.fromkeys(staff.NAMES, WrittenText)
        labels = {
            "is_active": gettext_lazy("May sign in"),
            "is_staff": gettext_lazy("Works in the console"),
            "is_superuser": gettext_lazy("Operator"),
        }
        help_texts = {
            "is_active": gettext_lazy(
                "If you untick it, the person is signed out everywhere, and their name stays in histories. To "
                "sign in again later, they need a new password."
            ),
            "is_staff": gettext_lazy("Only for our own people, never for merchants."),
            "is_superuser": gettext_lazy("Can do everything, including on all these pages."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("username", "email"):
            self.fields[name].widget.attrs |= {"dir": "ltr", "autocomplete": "off"}

    def _get_validation_exclusions(self) -> set[str]:
        """Validate a new username only: an address may have signs that Django's validator of usernames refuses."""
        is_typed = "username" in self.changed_data and not self._is_named_by_address
        return super()._get_validation_exclusions() | (set() if is_typed else {"username"})

    @cached_property
    def _is_named_by_address(self) -> bool:
        """Whether the username is the address, as with all merchants' people, and the operator has left it so."""
        return "username" not in self.changed_data and self.kept["username"].lower() == self.kept["email"].lower()

    def clean_username(self) -> str:
        """Reject a new name that is another's but for case, or another's address. An existing one may stay."""
        username = str(self.cleaned_data["username"])
        others = User.with_name(username).exclude(pk=self.instance.pk)
        if "username" in self.changed_data and others.exists():
            raise self.instance.unique_error_message(User, ("username",))
        return username

    def clean_email(self) -> str:
        """Validate a new address only, so that an old one never prevents shutting a person out."""
        email = str(self.cleaned_data["email"])
        if "email" in self.changed_data and email:
            mails.validate_address(email)
            if self._is_named_by_address:
                MaxLengthValidator(merchants.MAX_EMAIL)(email)
            if User.with_name(email).exclude(pk=self.instance.pk).exists():
                raise ValidationError(
                    _("Somebody already signs in with this address. Use another, or first change theirs under People.")
                )
        return email

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if self._is_named_by_address and "email" in self.changed_data and data.get("email"):
            data["username"] = data["email"]  # the old address lets nobody in any more, and others may have it
            self.changed_data.append("username")
        works_here = data.get("is_staff") or data.get("is_superuser") or data.get("groups")
        if works_here and self._works_for_a_merchant():
            raise ValidationError(_("This person works for a merchant. Create another sign-in for their work here."))
        if "is_active" in self.changed_data and not data.get("is_active"):
            self.unknown_password = unknown_password()
        if not (data.get("is_superuser") and data.get("is_staff") and data.get("is_active")) and self._is_the_last():
            raise ValidationError(_("This is the last operator: create another one first."))
        if self._has_worked_here() and not data.get("is_staff"):
            self.add_error("is_staff", _("Figures count the work this person has done. Untick “May sign in” instead."))
        elif works_here and data.get("is_active") and not data.get("is_staff"):
            self.add_error(
                "is_staff", _("Tick this too: without it, nobody can enter the console, whatever their role.")
            )
        return data

    def _has_worked_here(self) -> bool:
        """Whether they have signed in as staff. Their decisions count as the call center's while `is_staff` is set."""
        return self.kept["is_staff"] and self.instance.last_login is not None

    def _works_for_a_merchant(self) -> bool:
        is_holder = Account.objects.filter(holder=self.instance).exists()
        return is_holder or Membership.objects.filter(user=self.instance).exists()

    def _is_the_last(self) -> bool:
        """For an operator, locks all of them until the change commits: two might deactivate each other at once.

        Anybody else is locked alone: they might become an operator meanwhile, and then the last.
        """
        operators = User.objects.filter(is_superuser=True, is_staff=True, is_active=True).order_by("pk")
        if not operators.filter(pk=self.instance.pk).exists():
            User.objects.select_for_update(no_key=True).filter(pk=self.instance.pk).first()
            if not operators.filter(pk=self.instance.pk).exists():
                return False
        locked = operators.select_for_update(no_key=True).values_list("pk", flat=True)
        return list(locked) == [self.instance.pk]


class _PasswordOfAnother:
    """Marks the password as one-time: two people know it, so its owner must change it at the next login."""

    def set_password_and_save(self, user: User, *args: Any, **kwargs: Any) -> User:
        user.has_one_time_password = True
        return super().set_password_and_save(user, *args, **kwargs)  # type: ignore[misc]


class NewPersonForm(Form, _PasswordOfAnother, auth_forms.BaseUserCreationForm):
    def clean_username(self) -> str:
        """Reject a name that is another's but for case, or another's address."""
        username = str(self.cleaned_data["username"])
        if User.with_name(username).exists():
            raise ValidationError(self.instance.unique_error_message(User, ("username",)))
        return username


class PasswordOfAnotherForm(Form, _PasswordOfAnother, auth_forms.AdminPasswordChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields.pop("usable_password", None)
        for field in self.fields.values():
            field.required = True

    def save(self, commit: bool = True) -> User:
        user = super().save(commit=False)
        with transaction.atomic():
            user.save(update_fields=["password", "has_one_time_password"])  # somebody shut out meanwhile stays so
            sessions.end(user)
            security_log.note_person(Action.RESET, user)
        return user

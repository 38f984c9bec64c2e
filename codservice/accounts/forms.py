from datetime import date, datetime
from typing import Any

from django import forms
from django.contrib.auth import forms as auth_forms
from django.contrib.auth.hashers import make_password
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from codservice import days, ratelimit
from codservice.accounts import known_browsers, one_time_codes, security_log
from codservice.accounts.key_format import LIVE, TEST
from codservice.accounts.models import SCOPES, ApiKey, User
from codservice.accounts.security_log import Action
from codservice.accounts.tasks import have_mailed, send_password_link
from codservice.form_fields import DayField, Form, MailField, WrittenText

# Limits on attempts to sign in: as one person from one address since their last sign-in; as one person from anywhere
# since then, but for `known_browsers`; and as anybody from one address, which may be a call center at the start of a
# shift. The last is counted before any lookup or hashing.
LOGIN_RATE = "10/5m"
NAME_RATE = "20/5m"
ADDRESS_RATE = "30/m"
# Password links that one address may ask for, and that are mailed to one person.
LINK_RATE = "10/h"
MOST_LINKS = 3
MAIL_RATE = f"{MOST_LINKS}/h"
CODE_WIDGET = forms.TextInput(
    attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "dir": "ltr", "maxlength": 10}
)


class TooManyTries(ValidationError):
    """`wait` is the number of seconds until the next attempt."""

    def __init__(self, wait: int) -> None:
        self.wait = wait
        minutes = -(-wait // 60)
        text = ngettext(
            "Too many attempts. Try again in %(minutes)d minute.",
            "Too many attempts. Try again in %(minutes)d minutes.",
            minutes,
        )
        super().__init__(text, code="locked", params={"minutes": minutes})


def count_try(request: HttpRequest, group: str, value: str, rate: str) -> None:
    """Count an attempt of `value` in `group`, as `ratelimit.limited_for` does. Raises TooManyTries beyond `rate`."""
    if wait := ratelimit.limited_for(request, group, value, rate):
        raise TooManyTries(wait)


class OwnPassword:
    """Asks signed-in people for their password. Guesses are limited as at the login."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        self.request = request
        super().__init__(*args, **kwargs)

    def count_guess(self) -> None:
        count_try(self.request, "password", str(self.request.user.pk), LOGIN_RATE)


class LoginForm(Form, auth_forms.AuthenticationForm):
    """Username or e-mail address and password, plus a one-time code from people who have turned codes on."""

    code = forms.CharField(
        label=_("One-time code"),
        required=False,
        max_length=10,
        widget=CODE_WIDGET,
    )
    is_of_staff = False  # True at the console, the only door for staff who have turned codes on
    about_code = _(
        "Only if you have turned codes on. Lost your phone? The holder of your account, or we, can turn them off."
    )
    asks_for_code = False  # whether nothing was wrong, and a code is asked for next
    error_messages = {"invalid_login": _("The username or the password is wrong. Check upper and lower case.")}

    def __init__(self, request: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.fields["username"].label = _("Username or e-mail")
        self.fields["username"].widget.attrs |= {"autocomplete": "username", "dir": "ltr"}
        self.fields["code"].help_text = self.about_code

    def add_error(self, field: str | None, error: Any) -> None:
        """Focus the field that an error of the whole form is about; both pages give the error the id `refused`.

        That is the username or, when only the code is wrong or missing, the password, which must be typed again.
        """
        super().add_error(field, error)
        if field is None:
            first = "password" if self.has_error(NON_FIELD_ERRORS, "codes") else "username"
            self.fields["username"].widget.attrs.pop("autofocus", None)
            self.fields[first].widget.attrs |= {"autofocus": True, "aria-describedby": "refused"}

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data.get("username")
        if typed is None or not self.cleaned_data.get("password"):
            return self.cleaned_data
        # Each attempt is counted before the password is checked, so a hundred at once are still no more than ten.
        network = ratelimit.client_network(self.request)
        count_try(self.request, "login-address", network, ADDRESS_RATE)
        # A username in another case lets nobody in, but its tries count with the right one's: with two counts, which
        # unknown names do not have, the limit would tell which are known. What it does tell is whether a username and
        # an address are one person's, who has one count for both. A successful sign-in starts a new count, because it
        # changes the last login.
        person = User.meant_by(typed)
        name, last_login = (person.username, person.last_login) if person else (typed, None)
        tries_of = f"{name.lower()} {last_login}"
        count_try(self.request, "login", f"{tries_of} {network}", LOGIN_RATE)
        if person is None or not known_browsers.knows(self.request, person):
            count_try(self.request, "login-name", tries_of, NAME_RATE)
        username = person.username if person and person.signs_in_as(typed) else typed
        self.cleaned_data["username"] = username
        try:
            return super().clean()
        except ValidationError:
            if self.user_cache is not None:  # Django itself reports a wrong password
                security_log.note_refused_login(username)
            raise

    def confirm_login_allowed(self, user: User) -> None:
        """Called when the password is right: check the code, if the person has turned codes on."""
        super().confirm_login_allowed(user)
        if not one_time_codes.are_on(user):
            return
        if user.is_staff and not self.is_of_staff:
            raise ValidationError(_("You use one-time codes: sign in at the console."), code="codes")
        code = self.cleaned_data.get("code", "")
        if not code:  # the field is folded away at first, so none is no guess
            self.asks_for_code = True
            raise ValidationError(_("Type your password again, and the code that your phone shows."), code="codes")
        if wait := one_time_codes.wait(user):
            raise TooManyTries(wait)
        if not one_time_codes.accept(user, code):
            raise ValidationError(_("The one-time code is wrong or already used. Use the next one."), code="codes")


class ChosenPassword(Form, auth_forms.SetPasswordForm):
    """A password that people choose for themselves. Errors are shown at the field in which they chose it."""

    def validate_password_for_user(self, user: User, *_confirmation: str) -> None:
        super().validate_password_for_user(user, "new_password1")


class NewPasswordForm(ChosenPassword):
    """A chosen password, which need not be changed at the next login."""

    def save(self, commit: bool = True) -> User:
        """Write only the password, where Django would write everything it has read. Raises PersonChanged."""
        hashed = make_password(self.cleaned_data["new_password1"])  # deliberately slow, so before anything is locked
        with transaction.atomic():
            self.user.replace_password(hashed, has_one_time_password=False)
            security_log.note_person(Action.PASSWORD, self.user, person=self.user)
        self.user.has_one_time_password = False
        return self.user


class PasswordChangeForm(OwnPassword, auth_forms.PasswordChangeForm, NewPasswordForm):
    def clean_new_password1(self) -> str:
        new = self.cleaned_data["new_password1"]
        old = self.cleaned_data.get("old_password", "")
        if self.user.has_one_time_password and constant_time_compare(new, old):
            raise ValidationError(_("Choose a different password from the one that you were given."))
        return new

    @sensitive_variables()
    def clean_old_password(self) -> str:
        self.count_guess()
        return super().clean_old_password()


class PasswordForgottenForm(Form):
    """Asks for the address to mail a password link to. Nothing here checks whether it is known."""

    email = MailField(
        label=_("E-mail"),
        max_length=254,
        widget=forms.EmailInput(attrs={"autocomplete": "email", "dir": "ltr", "autofocus": True}),
    )

    def send_link(self, request: HttpRequest) -> None:
        """Have a worker mail the link. Raises TooManyTries, or kombu's OperationalError when the broker is away."""
        count_try(request, "password-link", ratelimit.client_network(request), LINK_RATE)
        email = self.cleaned_data["email"]
        if ratelimit.limited_for(request, "password-mail", email.casefold(), MAIL_RATE):
            return  # enough mails were sent; an error would tell that somebody had asked before
        have_mailed(send_password_link, email, host=request.get_host(), language=get_language())


class ApiKeyForm(Form):
    """A new key: its name and scopes, the mode in which it works, and its last day."""

    name = WrittenText(
        label=_("Name"),
        max_length=ApiKey._meta.get_field("name").max_length,
        help_text=_("Where it will be used, such as “WooCommerce shop”."),
    )
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=SCOPES,
        initial=list(SCOPES),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one.")},
    )
    works = forms.ChoiceField(
        label=_("It works"),
        required=False,
        choices=[
            (LIVE, _("for real orders, which agents confirm by phone and couriers deliver")),
            (TEST, _("in test mode: for trying things out; nobody is called")),
        ],
        widget=forms.RadioSelect,
    )
    last_day = forms.DateField(
        label=_("Works until"),
        required=False,
        widget=DayField.widget,
        help_text=_("Optional: the last day, in Algerian time."),
    )

    def clean_last_day(self) -> date | None:
        day = self.cleaned_data["last_day"]
        if day is not None and day < days.today():
            raise ValidationError(_("This day is in the past."))
        if day is not None and day.year not in days.YEARS:
            raise ValidationError(_("Leave it empty for a key that works until you revoke it."))
        return day

    @property
    def is_test(self) -> bool:
        """Whether to make a test key: as chosen, or by default as the form was made."""
        return (self.cleaned_data["works"] or self.get_initial_for_field(self.fields["works"], "works")) == TEST

    @property
    def expires_at(self) -> datetime | None:
        day = self.cleaned_data["last_day"]
        return day and days.end_of(day)

"""Forms that change something existing, which others may change meanwhile: nobody overwrites a change unknowingly."""

from datetime import time
from typing import Any

from django import forms
from django.core.signing import BadSignature, Signer
from django.db.models import Model
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from codservice.bidi import unturned
from codservice.form_fields import Form
from codservice.values import shortened

MOST_SAID = 100  # characters of a value in a sentence


def _read(field: forms.Field, shown: Any) -> Any:
    """Return a shown value as the field compares it: times were shown as text."""
    return field.to_python(shown) if isinstance(field, forms.TimeField) else shown


class SinceShown(Form):
    """A form that changes something existing.

    `changed_data` is what differs from what the person was shown, whatever others have changed since. If the form does
    not say what was shown, it is what differs from now.

    When others have meanwhile changed a field to another value than the person's, or what was shown cannot be read, as
    on a page from before an upgrade, the form is refused once, so that nobody overwrites a change unknowingly. Sent
    again, it is accepted. The refusal says what is stored now, and fields that the person left alone show that.
    """

    seen = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *args: Any, initial: dict[str, Any], **kwargs: Any) -> None:
        self._now = self._shown = initial
        self._is_unreadable = False
        if data is not None and (seen := data.get("seen")):
            try:
                self._shown = self._signer().unsign_object(seen)
            except BadSignature:
                self._is_unreadable = True
        super().__init__(data, *args, initial=self._shown | {"seen": self._sign(self._shown)}, **kwargs)

    @classmethod
    def _signer(cls) -> Signer:
        """One for each form, so that what another form has shown is not taken for what this one has."""
        return Signer(salt=f"{cls.__module__}.{cls.__qualname__}.seen")

    def _sign(self, shown: dict[str, Any]) -> str:
        return self._signer().sign_object(shown, compress=True)

    def clean(self) -> dict[str, Any]:
        others = {name: self._now.get(name) for name in self.changed_data if self._overwrites(name)}
        for name, now in others.items():
            self.add_error(name, self._said(name, now))
        if others:
            self.data = self.data.copy()
            self.data["seen"] = self._sign(self._shown | others)  # for other fields, what was shown at first
            self._show_now()
        return super().clean() or self.cleaned_data

    def _said(self, name: str, now: Any) -> str:
        if self._is_unreadable:
            return _("This page is out of date. Reload it and try again.")
        if now in ("", None) or isinstance(now, bool) or not self._is_simple(name):
            return _("This has changed since you opened the page. Reload it to see how, or save again to replace it.")
        said = _("This has changed since you opened the page. It is now “%(now)s”. Save again to replace it.")
        return said % {"now": unturned(shortened(str(now), MOST_SAID))}

    def _show_now(self) -> None:
        """Show the present values in the fields that the person left alone."""
        for name in self._now.keys() & self.fields.keys() - set(self.changed_data):
            if self._is_simple(name):
                now = self._now[name]
                self.data[name] = "" if now is None else str(now)

    def _is_simple(self, name: str) -> bool:
        """Whether it is a text, a number or a box, and not chosen of several."""
        return isinstance(self.fields[name], forms.CharField | forms.IntegerField | forms.BooleanField)

    def _overwrites(self, name: str) -> bool:
        if self._is_unreadable:
            return True
        field, shown, now = self.fields[name], self._shown.get(name), self._now.get(name)
        # Equal values first: a field that tidies what it reads finds a change in a stored text that it would tidy.
        if name not in self.cleaned_data or now == shown:
            return False
        return field.has_changed(_read(field, shown), now) and field.has_changed(_read(field, now), self[name].data)

    @cached_property
    def changed_data(self) -> list[str]:
        return [name for name in super().changed_data if name != "seen"]

    @property
    def changes(self) -> dict[str, Any]:
        """What the person changed. For valid forms."""
        return {name: self.cleaned_data[name] for name in self.changed_data}


class RowSinceShown(SinceShown, forms.ModelForm):
    """The same for a row. Where the person changed nothing, its present values (`kept`) are validated and written."""

    def __init__(self, data: Any = None, *args: Any, instance: Model, **kwargs: Any) -> None:
        self.kept = forms.model_to_dict(instance, self._meta.fields)
        shown = {name: self.base_fields[name].prepare_value(value) for name, value in self.kept.items()}
        shown |= {name: value.isoformat() for name, value in shown.items() if isinstance(value, time)}
        super().__init__(data, *args, initial=shown, instance=instance, **kwargs)
        for name in self.initial.keys() & self.fields.keys():
            self.initial[name] = _read(self.fields[name], self.initial[name])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        data.update({name: self.kept[name] for name in data.keys() & self.kept.keys() - set(self.changed_data)})
        return data

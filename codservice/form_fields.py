"""Form fields over `codservice.values`: first those of the API's filters, then those that people fill in."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from codservice import days, mails, values
from codservice.errors import Refused
from codservice.i18n_tags import dinars


class TextField(forms.CharField):
    """Text in the form in which we store it: trimmed, in NFC, without control characters."""

    def to_python(self, value: str | None) -> str:
        try:
            return values.text(value, max_length=self.max_length) if value else ""
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None

    @property
    def openapi(self) -> dict[str, Any]:
        return values.text_schema(max_length=self.max_length)


class SearchField(TextField):
    """What somebody searches for, without invisible marks around it."""

    def to_python(self, value: str | None) -> str:
        return values.visible_part(super().to_python(value))


class DigitsField(forms.Field):
    """An integer in ASCII digits, from `least` to `most`."""

    def __init__(self, *, least: int, most: int, **kwargs: Any) -> None:
        self.least, self.most = least, most
        super().__init__(**kwargs)

    def to_python(self, value: str | None) -> int | None:
        try:
            return values.digits(value, self.least, self.most) if value else None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None

    @property
    def openapi(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class WordsField(TextField):
    """One or more of `words`, comma separated, at most `most` of them if that is given. The refusal of any other word
    names them."""

    def __init__(
        self, *, words: tuple[str, ...], refusal: str = "is not one of:", most: int | None = None, **kwargs: Any
    ) -> None:
        self.words, self.refusal, self.most = words, refusal, most
        super().__init__(error_messages={"required": "Must not be empty."}, **kwargs)

    def to_python(self, value: str | None) -> list[str]:
        chosen = [word.strip() for word in super().to_python(value).split(",")] if value else []
        if self.most is not None and len(chosen) > self.most:
            raise forms.ValidationError(f"Must name at most {self.most} kinds.")
        if unknown := [word for word in chosen if word not in self.words]:
            raise forms.ValidationError(f"“{unknown[0][:50]}” {self.refusal} {', '.join(self.words)}.")
        return sorted(set(chosen))

    @property
    def openapi(self) -> dict[str, Any]:
        word = "|".join(self.words).replace(".", "\\.")
        more = "*" if self.most is None else f"{{0,{self.most - 1}}}"
        return {"type": "string", "pattern": f"^({word})(,({word})){more}$"}


class MomentField(forms.Field):
    """A time or a day, as `days.read_moment` reads it."""

    openapi = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}

    def __init__(self, *, ends: bool = False, **kwargs: Any) -> None:
        self.ends = ends
        super().__init__(**kwargs)

    def to_python(self, value: str | None) -> datetime | None:
        try:
            return days.read_moment(value, ends=self.ends) if value else None
        except ValueError:
            raise forms.ValidationError(_("Must be an ISO 8601 date, or an ISO 8601 time with a UTC offset.")) from None


class WrittenText(forms.CharField):
    """A line that somebody writes; empty if nothing of it can be seen. Errors are in their language."""

    is_free = False  # free text may have line breaks

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        """The direction follows the text, and browsers suggest nothing, unless the widget says otherwise."""
        return super().widget_attrs(widget) | {"dir": "auto", "autocomplete": "off"} | widget.attrs

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value and value.replace("\r\n", "\n"))
        try:
            text = values.text(text, free=self.is_free, may_be_blank=True) if text else ""
        except ValueError:
            raise forms.ValidationError(
                _("This text has characters that cannot be stored. Remove or replace them.")
            ) from None
        return text if values.has_visible(text) else ""


class FreeText(WrittenText):
    """The same with line breaks. A page shows two lines unless the widget says otherwise."""

    widget = forms.Textarea(attrs={"rows": 2})
    is_free = True


class MailField(forms.EmailField):
    """An e-mail address that mail can be sent to."""

    default_validators = [mails.validate_address]


class DayField(forms.DateField):
    """A day within `days.YEARS`."""

    widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")

    def validate(self, value: date | None) -> None:
        super().validate(value)
        if value is not None and value.year not in days.YEARS:
            raise forms.ValidationError(_("Choose a day from 2000 to 2999."))


class AskedDay(forms.CharField):
    """A day in the form of a list's filters, as text: the filters read it."""

    widget = DayField.widget

    def __init__(self, *, label: Any) -> None:
        super().__init__(label=label, required=False)


class Form(forms.Form):
    """A form whose labels do not end with a colon."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, label_suffix="", **kwargs)

    def add_errors(self, refused: Refused, *, by: str | None = None, in_words: Callable[[str], str] = str) -> None:
        """Add a refusal's sentences to the fields that they are about, else to the field `by` if given.

        Sentences about a field that is not visible go above all fields. A field that already has an error gets no
        more. `in_words` translates sentences that are worded for the API."""
        seen = {field.name for field in self.visible_fields()}
        for name, sentences in refused.by_field(by or "").items():
            if name in self.errors:
                continue
            self.add_error(name if name in seen else None, [in_words(sentence) for sentence in sentences])


class PeriodForm(Form):
    """The first and the last day of a period, at most `most_days` long. The default is the last 7 days."""

    most_days: int
    lengths = {7: gettext_lazy("7 days"), 30: gettext_lazy("30 days"), 92: gettext_lazy("92 days")}
    first = DayField(label=gettext_lazy("From"), required=False)
    last = DayField(label=gettext_lazy("To"), required=False)

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        if self.errors:
            return data
        last = data["last"] = data.get("last") or days.today()
        first = data["first"] = data.get("first") or last - timedelta(days=6)
        if first > last:
            raise forms.ValidationError(_("The first day must not be later than the last."))
        if (last - first).days >= self.most_days:
            raise forms.ValidationError(_("Choose at most %(days)d days.") % {"days": self.most_days})
        return data

    @classmethod
    def presets(cls) -> list[tuple[Any, date, date]]:
        """Return the label, first and last day of each period of `lengths` that ends today."""
        today = days.today()
        return [(label, today - timedelta(days=count - 1), today) for count, label in cls.lengths.items()]


class AmountField(forms.CharField):
    """An amount, with a comma or a point, and maybe spaces between thousands. None if it is optional and left empty."""

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return super().widget_attrs(widget) | {"inputmode": "decimal", "dir": "ltr", "autocomplete": "off"}

    def has_changed(self, initial: str | None, data: str | None) -> bool:
        """Compare without what languages write differently."""
        return values.plain_amount(initial or "") != values.plain_amount(data or "")

    def clean(self, value: str | None) -> Decimal | None:
        text = values.plain_amount(super().clean(value))
        if not text:
            return None
        try:
            return values.amount(text)
        except values.TooMuch:
            most = {"most": dinars(values.MAX_AMOUNT)}
            raise forms.ValidationError(_("Enter an amount of at most %(most)s.") % most) from None
        except ValueError:
            raise forms.ValidationError(_("Enter an amount such as 400 or 400.50.")) from None


class QuantityField(forms.IntegerField):
    """An integer in ASCII digits. One that is too high gets the sentence of `max_value`, as a barcode does."""

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return super().widget_attrs(widget) | {"dir": "ltr"}

    def to_python(self, value: str | None) -> int | None:
        try:
            return values.digits(value, 0, 10**19) if value else None
        except ValueError:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class LongSelect(forms.Select):
    """A select with many options and no groups, with Django's HTML but without rendering a template for each option."""

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        chosen = self.format_value(value)
        pairs = (("" if key is None else str(key), str(label)) for key, label in self.choices)
        options = format_html_join("\n", "{}", ((_option(*pair, is_chosen=pair[0] in chosen),) for pair in pairs))
        others = flatatt(self.build_attrs(self.attrs, attrs))
        return format_html('<select name="{}"{}>{}</select>', name, others, options)


@lru_cache(maxsize=4096)
def _option(key: str, label: str, *, is_chosen: bool) -> SafeString:
    """Cached, since page after page has the same people in its select. Text that is marked safe is escaped too: the
    cache cannot tell it from the same text that is not."""
    return format_html('<option value="{}"{}>{}</option>', escape(key), " selected" if is_chosen else "", escape(label))

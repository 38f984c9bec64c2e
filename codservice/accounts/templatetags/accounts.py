"""How people and keys are shown: `{% load accounts %}`."""

from django import template
from django.utils import formats

from codservice import days
from codservice.accounts import actor
from codservice.accounts.models import ApiKey
from codservice.i18n_tags import moment

register = template.Library()
register.filter("actor_in_words", actor.in_words)


@register.filter
def works_until(key: ApiKey) -> str:
    """The last day on which the key works in Algeria; the moment if it ends in the middle of a day."""
    day = days.ended_by(key.expires_at)
    return moment(key.expires_at) if day is None else formats.date_format(day, "j N Y")

"""What Django's admin gives its own templates alone: `{% load console %}`."""

from collections.abc import Iterator
from typing import Any

from django import template
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.views.main import ChangeList

register = template.Library()


@register.filter
def choices_of(list_filter: SimpleListFilter, changelist: ChangeList) -> list[dict[str, Any]]:
    return list(list_filter.choices(changelist))


@register.filter
def page_numbers(changelist: ChangeList) -> Iterator[int | str]:
    return changelist.paginator.get_elided_page_range(changelist.page_num)

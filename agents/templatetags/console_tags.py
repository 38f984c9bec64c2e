"""What Django's admin gives its own templates alone: `{% load console_tags %}`."""

from collections.abc import Iterator
from typing import Any

from django import template
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

register = template.Library()

WORK, LOOK, SUPERVISE = "orders.work_order", "orders.view_order", "orders.supervise_order"
ROOMS = [
    ("desk", _("Desk"), WORK),
    ("orders_order_changelist", _("Orders"), LOOK),
    ("review", _("Review"), SUPERVISE),
    ("claims", _("Claims"), LOOK),
    ("moves", _("Moves"), SUPERVISE),
    ("figures", _("Figures"), SUPERVISE),
    ("people", _("Agents"), SUPERVISE),
    ("rules", _("Rules"), SUPERVISE),
]


@register.filter
def choices_of(list_filter: SimpleListFilter, changelist: ChangeList) -> list[dict[str, Any]]:
    return list(list_filter.choices(changelist))


@register.filter
def get(names: dict[Any, Any], key: Any) -> Any:
    """`names[key]`, or nothing."""
    return names.get(key, "")


@register.simple_tag(takes_context=True)
def rooms(context: dict[str, Any]) -> list[dict[str, Any]]:
    """The console's parts that the person may enter, for its navigation; `is_current` is where they are."""
    request = context["request"]
    entries = [(reverse(f"admin:{name}"), label, permission) for name, label, permission in ROOMS]
    return [
        {"url": url, "label": label, "is_current": request.path.startswith(url)}
        for url, label, permission in entries
        if request.user.has_perm(permission)
    ]


@register.filter
def page_numbers(changelist: ChangeList) -> Iterator[int | str]:
    return changelist.paginator.get_elided_page_range(changelist.page_num)

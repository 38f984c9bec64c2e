"""Navigation of the console, and filters for its counts, times and lists: `{% load console_tags %}`."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.apps import apps
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from codservice.docs import library

register = template.Library()

WORK, LOOK, SUPERVISE = "orders.work_order", "orders.view_order", "orders.supervise_order"
ADMINISTER = "accounts.view_account"  # an operator's
ROOMS = [
    ("desk", _("Desk"), WORK),
    ("orders_order_changelist", _("Orders"), LOOK),
    ("review", _("Review"), SUPERVISE),
    ("claims", _("In progress"), LOOK),
    ("moves", _("Bulk update"), SUPERVISE),
    ("figures", _("Figures"), SUPERVISE),
    ("people", _("Agents"), SUPERVISE),
    ("rules", _("Rules"), SUPERVISE),
    ("accounts_account_changelist", _("Administration"), ADMINISTER),
]
# The operators' lists, in the order of the tabs.
ADMINISTERED = [
    "accounts_account", "accounts_apikey", "webhooks_webhook", "webhooks_delivery", "webhooks_attempt",
    "webhooks_event", "accounts_user", "auth_group", "accounts_securityentry",
]  # fmt: skip
# What our permissions allow, in words.
PERMISSIONS = {
    "view_order": _("look at orders"),
    "work_order": _("call customers and decide orders"),
    "supervise_order": _("supervise: all moves of orders, agents, rules and figures"),
}


@register.simple_tag(takes_context=True)
def guide(context: dict[str, Any]) -> str:
    """The address of the guide for the user's role."""
    user = context["user"]
    return library.address(
        "operators" if user.has_perm(ADMINISTER) else "supervisors" if user.has_perm(SUPERVISE) else "agents"
    )


@register.filter
def get(names: dict[Any, Any], key: Any) -> Any:
    """`names[key]`, or an empty string."""
    return names.get(key, "")


@register.filter
def duration(time: timedelta) -> str:
    """`12 minutes`, `2 h 05 min`."""
    minutes = round(time / timedelta(minutes=1))
    if minutes < 60:
        return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
    return gettext("%(hours)d h %(minutes)02d min") % {"hours": minutes // 60, "minutes": minutes % 60}


@register.filter
def up_to(count: int, most: int) -> str:
    """`12`, or `999+` for a count that stopped at `most`, 1000."""
    return f"{most - 1}+" if count >= most else str(count)


@register.filter
def near(at: datetime) -> str:
    """`14:05` if today, otherwise `21 Nov., 14:05`, in the page's time zone."""
    here = timezone.localtime(at)
    return formats.date_format(here, "H:i" if here.date() == timezone.localdate() else gettext("j N, H:i"))


@register.simple_tag(takes_context=True)
def rooms(context: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of the console that the user may enter, for the navigation. `is_current` marks the open one."""
    request = context["request"]
    entries = [
        (reverse(f"admin:{name}"), label) for name, label, permission in ROOMS if request.user.has_perm(permission)
    ]
    return [{"url": url, "label": label, "is_current": request.path.startswith(url)} for url, label in entries]


@register.simple_tag(takes_context=True)
def administered(context: dict[str, Any]) -> list[dict[str, Any]]:
    """The operators' lists, for the tabs of their pages."""
    path, tabs = context["request"].path, []
    for name in ADMINISTERED:
        label = capfirst(apps.get_model(*name.split("_"))._meta.verbose_name_plural)
        url = reverse(f"admin:{name}_changelist")
        tabs.append({"url": url, "label": label, "is_current": path.startswith(url)})
    return tabs


@register.filter
def permission_words(permission: Permission) -> str:
    return PERMISSIONS.get(permission.codename, permission.name)


@register.filter
def page_numbers(changelist: ChangeList) -> Iterator[int | str]:
    return changelist.paginator.get_elided_page_range(changelist.page_num)

"""How products are shown: `{% load inventory %}`."""

from django import template

register = template.Library()


@register.filter
def is_link(address: str | None) -> bool:
    """Whether the address leads to a web page, and cannot run a script."""
    return bool(address) and str(address).startswith("https://")

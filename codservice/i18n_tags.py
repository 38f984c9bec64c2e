"""Django's `{% load i18n %}`, but what is the same for everybody is rendered once for each language."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from django import template
from django.template.base import FilterExpression, Parser, Token
from django.templatetags import i18n
from django.utils import formats, timezone
from django.utils.safestring import SafeString
from django.utils.translation import get_language, get_language_bidi, gettext

from codservice.bidi import unturned

register = template.Library()
register.tags |= i18n.register.tags
register.filters |= i18n.register.filters
register.filter(unturned)  # for names that others chose, in our sentences


@register.filter
def counted(number: int) -> str:
    """Format as `18 500`, the same in every language."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


@register.simple_tag
def comma() -> str:
    """Return the separator of lists in the reader's script."""
    return "، " if get_language_bidi() else ", "


@register.filter
def listed(parts: Iterable[object]) -> str:
    """Join as `Alger, Oran`; in Arabic `الجزائر، وهران`."""
    return comma().join(map(str, parts))


def percent(share: float) -> str:
    """Format as `12,5 %`, with the reader's decimal separator."""
    return f"{formats.number_format(round(100 * share, 1), 1)} %"


def part_of(part: int, whole: int) -> str:
    """Format as `12 of 1 200`."""
    return gettext("%(part)s of %(whole)s") % {"part": counted(part), "whole": counted(whole)}


def written_amount(value: Decimal, thousands: str = "") -> str:
    """Format an amount as people write it in their language, also in forms, with centimes only if there are any."""
    text = f"{value:,.2f}".removesuffix(".00").replace(",", thousands)
    return text.replace(".", formats.get_format("DECIMAL_SEPARATOR"))


@register.filter
def dinars(amount: Decimal) -> str:
    """Format as `18 500`, `4 500.50` or, in French and Arabic, `4 500,50`: centimes only if there are any."""
    return written_amount(amount, thousands="\N{NARROW NO-BREAK SPACE}")


@register.filter(expects_localtime=True)
def instant(at: datetime) -> str:
    """Format as `2026-11-27T14:05:11+01:00` for `<time>`, where Python's microseconds would not be valid."""
    return at.isoformat(timespec="seconds")


@register.filter
def moment(at: datetime) -> str:
    """Format as `21 Nov. 2026, 14:05`, in the page's time zone."""
    return formats.date_format(timezone.localtime(at), gettext("j N Y, H:i"))


class Once(template.Node):
    """`{% once NAME … [unless CONDITION] %}`: a part that is the same for everybody, rendered once for each language.

    It is kept as long as the template is. It sees only the variables that it names, so that nothing of one person's
    page gets into another's. Where CONDITION holds, it is rendered like any other part of the page.
    """

    def __init__(self, nodes: template.NodeList, names: list[str], unless: FilterExpression | None = None):
        self.nodelist, self.names, self.unless = nodes, names, unless
        self.kept: dict[str | None, SafeString] = {}

    def render(self, context: template.Context) -> SafeString:
        if self.unless is not None and self.unless.resolve(context):
            return self.nodelist.render(context)
        language = get_language()
        if language not in self.kept:
            self.kept[language] = self.nodelist.render(context.new({name: context[name] for name in self.names}))
        return self.kept[language]


@register.tag
def once(parser: Parser, token: Token) -> Once:
    names = token.split_contents()[1:]
    unless = None
    if "unless" in names:
        names, unless = names[:-2], parser.compile_filter(names[-1])
    nodes = parser.parse(["endonce"])
    parser.delete_first_token()
    return Once(nodes, names, unless)


@register.tag("trans")
@register.tag
def translate(parser: Parser, token: Token) -> template.Node:
    """Django's own, except that literal texts without options are looked up once: a page has dozens, and each lookup
    takes 66 function calls."""
    node = i18n.do_translate(parser, token)
    text, *others = token.split_contents()[1:]
    is_fixed = not others and text[0] in "\"'" and not node.filter_expression.filters
    return Once(template.NodeList([node]), []) if is_fixed else node

"""Bar charts as geometry, for templates that draw them as SVG: shapes in attributes, colours in the style sheet.

A chart fills the width of its place, also on a phone: horizontal measures are relative, and text keeps its size.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from django.utils.translation import gettext as _

KINDS = ("good", "bad")  # the kinds of a bar's parts, in order
MOST_ROWS = 20


class Bar(NamedTuple):
    """What a bar shows: its `parts` in order, their description in words, and a link to the rows behind them."""

    name: str
    parts: Sequence[float]
    text: str = ""
    link: str = ""
    short: str = ""  # shown on the bar of a day while there is room


def spans(bounds: Sequence[str]) -> list[str]:
    """Return names for the spans between these bounds, with one below the first and one from the last on."""
    between = [_("%(least)s to %(most)s") % {"least": least, "most": most} for least, most in pairwise(bounds)]
    return [_("under %(time)s") % {"time": bounds[0]}, *between, _("%(time)s or more") % {"time": bounds[-1]}]


# --- Rows, for people and places -------------------------------------------------------------------------------------


class Part(NamedTuple):
    kind: str
    x: float
    width: float


class Row(NamedTuple):
    """A bar with its parts, whose measures are percentages of the longest bar."""

    bar: Bar
    parts: list[Part]


def rows(bars: Sequence[Bar]) -> list[Row]:
    """Return the first MOST_ROWS bars, one above the other."""
    bars = bars[:MOST_ROWS]
    longest = max((sum(bar.parts) for bar in bars), default=0) or 1
    return [Row(bar, _parts(bar, longest)) for bar in bars]


def _parts(bar: Bar, longest: float) -> list[Part]:
    parts, x = [], 0.0
    for kind, value in zip(KINDS, bar.parts, strict=False):
        width = 100 * value / longest
        parts.append(Part(kind, round(x, 1), round(width, 1)))
        x += width
    return parts


# --- Days ------------------------------------------------------------------------------------------------------------

HEIGHT, _TOP, _BOTTOM = 220, 18, 28  # pixels
SCALE = 14  # percent of the width, left of the bars
_MOST_NAMES = 7  # names under days; more would overlap on a phone, and on a small one every second is hidden
_DIGIT, _WIDE, _PHONE = 8, 660, 290  # pixels: the widths of a digit, and of all bars on a wide screen and a phone


class Label(NamedTuple):
    x: float  # percent of the width
    y: float
    text: str


class Days(NamedTuple):
    """Bars side by side from left to right, with a scale. Their coordinates are `count` wide and HEIGHT high."""

    count: int
    height: int
    left: int
    width: int
    paths: list[tuple[str, str]]  # a kind, and all parts of this kind
    told: list[str]  # what each bar shows, in words
    names: list[Label]
    shorts: list[Label]
    are_tight: bool  # whether the shorts are too wide for a phone
    scale: list[Label]


def days(bars: Sequence[Bar], unit: str = "") -> Days:
    """Return one bar for each day; the numbers of the scale end with `unit`."""
    count, inner = max(len(bars), 1), HEIGHT - _TOP - _BOTTOM
    top = _round_up(max((sum(bar.parts) for bar in bars), default=0))
    paths, names, shorts = dict.fromkeys(KINDS, ""), [], []
    every = math.ceil(count / _MOST_NAMES)
    widest = max((len(bar.short) for bar in bars), default=0) * _DIGIT * count
    for number, bar in enumerate(bars):
        middle, y = round(SCALE + (100 - SCALE) * (number + 0.5) / count, 2), float(HEIGHT - _BOTTOM)
        for kind, value in zip(KINDS, bar.parts, strict=False):
            high = inner * value / top
            y -= high
            paths[kind] += f"M{number + 0.15:.2f} {y:.1f}h.7v{high:.1f}h-.7z" if high else ""
        if number % every == 0:
            names.append(Label(middle, HEIGHT - 8, bar.name))
        if bar.short and widest <= _WIDE:
            shorts.append(Label(middle, round(y - 4, 1), bar.short))
    told = [f"{bar.name} · {bar.text}" for bar in bars if bar.text]
    scale = [Label(0, _TOP + inner * (1 - part), f"{top * part:g}{unit}") for part in (0, 0.5, 1)]
    return Days(count, HEIGHT, SCALE, 100 - SCALE, list(paths.items()), told, names, shorts, widest > _PHONE, scale)


def _round_up(value: float) -> float:
    """Round up to 2, 4 or 10 times a power of ten, so that a scale of halves has round numbers."""
    power = 1
    while True:
        for step in (2, 4, 10):
            if step * power >= value:
                return step * power
        power *= 10

"""Pictures of two parts of a whole, good and bad, as geometry for a template that draws them as SVG.

Each bar is as long as what it counts; all good parts are one path and all bad ones another, so that a year of days is a
few kilobytes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Bar(NamedTuple):
    """What a bar stands for; `text` is what it says in words."""

    name: str
    good: int
    bad: int
    text: str = ""


class Label(NamedTuple):
    x: float
    y: float
    text: str


class Picture(NamedTuple):
    width: int
    height: int
    good: str  # paths
    bad: str
    names: list[Label]
    texts: list[Label]  # beside lying bars
    scale: list[Label]  # lines across standing ones


WIDTH = 720
MOST_LYING = 20
_HEIGHT, _SCALE_WIDTH, _TOP, _BOTTOM = 200, 56, 12, 28
_MOST_NAMES = 8  # under days; more would run into each other
_ROW, _NAME_WIDTH, _TEXT_WIDTH = 30, 220, 170


def standing(bars: Sequence[Bar]) -> Picture:
    """Side by side from left to right, good parts below, with a scale: for days."""
    top = _round_up(max((bar.good + bar.bad for bar in bars), default=0))
    step, inner = (WIDTH - _SCALE_WIDTH) / max(len(bars), 1), _HEIGHT - _TOP - _BOTTOM
    every = math.ceil(len(bars) / _MOST_NAMES) or 1
    good, bad, names = [], [], []
    for number, bar in enumerate(bars):
        x, high = _SCALE_WIDTH + number * step, inner * bar.good / top
        good.append(_box(x + step * 0.15, _TOP + inner - high, step * 0.7, high))
        higher = inner * bar.bad / top
        bad.append(_box(x + step * 0.15, _TOP + inner - high - higher, step * 0.7, higher))
        if number % every == 0:
            names.append(Label(round(x + step / 2, 1), _HEIGHT - 8, bar.name))
    scale = [Label(_SCALE_WIDTH - 6, round(_TOP + inner * (1 - part), 1), f"{top * part:g}") for part in (0, 0.5, 1)]
    return Picture(WIDTH, _HEIGHT, "".join(good), "".join(bad), names, [], scale)


def lying(bars: Sequence[Bar]) -> Picture:
    """One above the other, each with its name before it and its text behind it. The first MOST_LYING."""
    bars = bars[:MOST_LYING]
    longest = max((bar.good + bar.bad for bar in bars), default=0) or 1
    inner = WIDTH - _NAME_WIDTH - _TEXT_WIDTH
    good, bad, names, texts = [], [], [], []
    for row, bar in enumerate(bars):
        y, wide, wider = row * _ROW + 5, inner * bar.good / longest, inner * bar.bad / longest
        good.append(_box(_NAME_WIDTH, y, wide, _ROW - 10))
        bad.append(_box(_NAME_WIDTH + wide, y, wider, _ROW - 10))
        names.append(Label(_NAME_WIDTH - 8, y + 15, bar.name))
        texts.append(Label(round(_NAME_WIDTH + wide + wider + 8, 1), y + 15, bar.text))
    return Picture(WIDTH, max(len(bars), 1) * _ROW, "".join(good), "".join(bad), names, texts, [])


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z" if width > 0 and height > 0 else ""


def _round_up(value: float) -> float:
    """To one of 2, 4 or 10 times a power of ten, so that a scale of halves has round numbers."""
    power = 1
    while True:
        for step in (2, 4, 10):
            if step * power >= value:
                return step * power
        power *= 10

"""Bar charts as geometry, for a template that draws them as SVG: shapes in attributes, colours in the style sheet."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """A bar to draw; no bar where there is no value."""

    name: str
    value: float | None
    text: str  # the value as people read it
    short: str = ""  # what stands on a standing bar while there is room


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    name_at: float  # where the name's middle is, along the axis of names
    point: Point
    is_named: bool
    has_room: bool = False  # for its short text

    @property
    def value_at(self) -> float:
        """Where the value begins, after a lying bar."""
        return self.x + self.width + 8


class Line(NamedTuple):
    """A line of the scale."""

    at: float
    text: str


class Chart(NamedTuple):
    width: int
    height: int
    bars: list[Bar]
    scale: list[Line]


WIDTH = 720
MOST_LYING = 20
_STANDING_HEIGHT, _SCALE_WIDTH, _TOP, _BOTTOM = 240, 56, 18, 28
_MOST_NAMES = 10  # under a scale of days; more would run into each other
_DIGIT = 8  # as wide as one is drawn
_ROW, _NAME_WIDTH, _VALUE_WIDTH = 30, 200, 170


def standing(points: Sequence[Point], unit: str = "") -> Chart:
    """Side by side from left to right, with a scale: for days."""
    top = _round_up(max((point.value or 0 for point in points), default=0))
    step = (WIDTH - _SCALE_WIDTH) / max(len(points), 1)
    inner = _STANDING_HEIGHT - _TOP - _BOTTOM
    every = math.ceil(len(points) / _MOST_NAMES) or 1
    has_room = all(len(point.short) * _DIGIT <= step for point in points)
    bars = []
    for number, point in enumerate(points):
        height, x = inner * (point.value or 0) / top, _SCALE_WIDTH + number * step
        y, middle = _TOP + inner - height, x + step / 2
        bar = (round(number, 1) for number in (x + step * 0.15, y, step * 0.7, height, middle))
        bars.append(Bar(*bar, point, number % every == 0, has_room=has_room))
    scale = [Line(round(_TOP + inner * (1 - part), 1), f"{top * part:g}{unit}") for part in (0, 0.5, 1)]
    return Chart(WIDTH, _STANDING_HEIGHT, bars, scale)


def lying(points: Sequence[Point]) -> Chart:
    """One above the other, each with its name and value beside it: for people and places. The first MOST_LYING."""
    points = points[:MOST_LYING]
    longest = max((point.value or 0 for point in points), default=0) or 1
    inner = WIDTH - _NAME_WIDTH - _VALUE_WIDTH
    bars = [
        Bar(_NAME_WIDTH, row * _ROW + 5, round(inner * (point.value or 0) / longest, 1), _ROW - 10, row * _ROW + 20,
            point, is_named=True)
        for row, point in enumerate(points)
    ]  # fmt: skip
    return Chart(WIDTH, max(len(points), 1) * _ROW, bars, [])


def _round_up(value: float) -> float:
    """To one of 1, 2 or 5 times a power of ten, so that a scale has round numbers."""
    if value <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))

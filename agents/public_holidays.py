"""Algeria's public holidays, from a file that `make holidays` writes. Islamic dates are estimates; each release brings
better ones.

The package that knows them takes a second and 45 MB to import.
"""

import csv
from datetime import date
from functools import cache
from itertools import islice
from pathlib import Path

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

DAYS = Path(__file__).with_suffix(".csv")
MOST = 20  # days; a year has fewer, and nobody plans further ahead
ESTIMATED = " (estimated)"
NAMES = {
    gettext_noop("New Year's Day"),
    gettext_noop("Amazigh New Year"),
    gettext_noop("Labor Day"),
    gettext_noop("Independence Day"),
    gettext_noop("Revolution Day"),
    gettext_noop("Islamic New Year"),
    gettext_noop("Ashura"),
    gettext_noop("Prophet's Birthday"),
    gettext_noop("Eid al-Fitr"),
    gettext_noop("Eid al-Adha"),
}


def in_words(name: str) -> str:
    """A name from the file, which may hold two holidays, in the reader's language."""
    return " · ".join(
        _("%(holiday)s (estimated)") % {"holiday": _(one.removesuffix(ESTIMATED))}
        if one.endswith(ESTIMATED)
        else _(one)
        for one in name.split("; ")
    )


def ahead(since: date) -> dict[date, str]:
    """The names of the next MOST holidays, that day's among them: the coming year's at least. In order of time."""
    return dict(islice((row for row in _known() if row[0] >= since), MOST))


@cache
def _known() -> list[tuple[date, str]]:
    with DAYS.open(encoding="utf-8") as file:
        return [(date.fromisoformat(day), name) for day, name in csv.reader(file)]

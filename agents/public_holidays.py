"""Algeria's public holidays for the coming years, as rows that call planning reads.

They come from a file that `make holidays` writes. The package that knows them takes a second and 45 MB to import, and
migrations run at every start.
"""

import csv
from datetime import date
from pathlib import Path
from typing import Any

from django.apps import apps as all_apps
from django.apps.registry import Apps
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from codservice import days

DAYS = Path(__file__).with_suffix(".csv")
YEARS_AHEAD = 3  # Islamic dates are estimates; each release brings better ones
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


def write(*, using: str, apps: Apps = all_apps, **kwargs: Any) -> None:
    """Write the holidays of this year and the next YEARS_AHEAD. A receiver of `post_migrate`."""
    try:
        rows = apps.get_model("agents", "PublicHoliday").objects.using(using)
    except LookupError:  # migrated only to before the table
        return
    year = days.today().year
    known = dict(rows.filter(day__year__gte=year).values_list("day", "name"))
    with DAYS.open(encoding="utf-8") as file:
        all_days = ((date.fromisoformat(day), name) for day, name in csv.reader(file))
        holidays = {day: name for day, name in all_days if year <= day.year <= year + YEARS_AHEAD}
    if known != holidays:
        with transaction.atomic(using):
            rows.filter(day__year__gte=year).delete()
            rows.bulk_create(rows.model(day=day, name=name) for day, name in holidays.items())

"""Algeria's public holidays, as rows: the package that knows them takes a second and 45 MB to import, so that is done
when tables are migrated, by a process that ends, and not by those that serve.
"""

from typing import Any

from django.apps import apps as all_apps
from django.apps.registry import Apps
from django.db import transaction

from codservice import days

YEARS_AHEAD = 3  # islamic days are estimates; each release of the service brings better ones


def write(*, using: str, apps: Apps = all_apps, **kwargs: Any) -> None:
    """This year's and those of the next ones. A receiver of `post_migrate`."""
    try:
        rows = apps.get_model("agents", "PublicHoliday").objects.using(using)
    except LookupError:  # migrated to before the table
        return
    from holidays.countries.algeria import Algeria

    years = range(days.today().year, days.today().year + YEARS_AHEAD + 1)
    known = dict(rows.filter(day__year__gte=years[0]).values_list("day", "name"))
    holidays = {day: name[:100] for day, name in Algeria(years=years).items()}
    if known != holidays:
        with transaction.atomic(using):
            rows.filter(day__year__gte=years[0]).delete()
            rows.bulk_create(rows.model(day=day, name=name) for day, name in holidays.items())

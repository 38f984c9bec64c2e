"""Algeria's public holidays from the package `holidays`: `make holidays` writes agents/public_holidays.csv."""

import csv
from io import StringIO

from agents import public_holidays

YEARS = range(2026, 2046)


def table() -> str:
    """The file's text."""
    from holidays.countries.algeria import Algeria  # slow: it imports all other countries

    written = StringIO()
    csv.writer(written, lineterminator="\n").writerows(sorted(Algeria(years=YEARS, language="en_US").items()))
    return written.getvalue()


if __name__ == "__main__":
    public_holidays.DAYS.write_text(table(), encoding="utf-8")

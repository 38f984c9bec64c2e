"""How an uploaded file's columns are matched with ours: the proposal, and the form that confirms it."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.forms import BoundField
from django.utils.translation import gettext

from codservice import wording
from codservice.files.headings import by_cells, key, meant
from codservice.files.intake import Intake
from codservice.files.reports import ADDED
from codservice.form_fields import Form, WrittenText
from codservice.i18n_tags import listed
from codservice.uploads.kinds import KINDS
from codservice.uploads.models import FileRow, Upload
from codservice.uploads.processing import by_column

ROWS_LOOKED_AT = 20  # to recognise columns by their cells
TEXT_LOOKED_AT = 100_000  # characters; fewer than a block of rows has, so that only one is read
FILES_LOOKED_AT = 20  # the latest ones, to repeat people's corrections
CAMPAIGN = {"campaign id", "campaign name"}  # headings of an advertisement's leads from Facebook, TikTok or Google


class MatchForm(Form):
    """Asks which of the file's columns holds each of ours, or for some of ours which text all rows have instead."""

    def __init__(self, upload: Upload, data: Any = None) -> None:
        self._upload, self._file_rows = upload, _first_rows(upload)
        self.rows = [row.cells for row in self._file_rows]
        self.fingerprint = _with_campaign(upload, self.rows)
        super().__init__(data, initial=_proposal(upload, self.rows, self.fingerprint), use_required_attribute=False)
        self.intake, self.account_id = KINDS[upload.kind].intake, upload.account_id
        # Probably a file without headings: its first row stands in their place, and would be lost unnoticed.
        is_any_known = any(meant(upload.titles, self.intake.columns)) or _alike(upload, self.fingerprint).exists()
        self.is_without_headings = not is_any_known
        names = [
            (place, title or gettext("Column %(number)d") % {"number": place + 1})
            for place, title in enumerate(upload.titles)
            if title not in ADDED  # which are always ours, and left out of reports
        ]
        for column in self.intake.columns:
            field = forms.TypedChoiceField(
                label=column.label,
                choices=[("", gettext("(not in the file)")), *names],
                coerce=int,
                empty_value=None,
                required=False,
                help_text=column.help if column.constant is None else "",
            )
            field.widget.attrs["dir"] = "auto"
            self.fields[column.name] = field
            if column.constant is not None:
                label = gettext("%(column)s for all rows") % {"column": column.label}
                self.fields[_constant(column.name)] = WrittenText(
                    label=label, help_text=column.help, required=False, max_length=500
                )

    def pairs(self) -> list[list[BoundField]]:
        """The fields of each of our columns."""
        names = [(column.name, _constant(column.name)) for column in self.intake.columns]
        return [[self[name] for name in both if name in self.fields] for both in names]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for name in self.mapping():  # the page hides the text, and its errors, where a column is chosen
            self.errors.pop(_constant(name), None)
        constants = self.constants()
        there = self.mapping().keys() | self.intake.understood(self.account_id, constants).keys()
        for names in self.intake.required:
            if there.isdisjoint(names) and self.errors.keys().isdisjoint([*names, *map(_constant, names)]):
                self.add_error(names[0], self._asked_for(names))
        for name, sentences in self.intake.wrong_constants(constants).items():
            self.add_error(_constant(name), [wording.in_words(each) for each in sentences])
        return data

    def _asked_for(self, names: Sequence[str]) -> str:
        if any(_constant(name) in self.fields for name in names):
            one, some = (
                gettext("Choose the column, or enter a value for all rows."),
                gettext("Choose one of %(names)s, or enter a value for all rows."),
            )
        else:
            one, some = gettext("Choose the column."), gettext("Choose one of: %(names)s.")
        return some % {"names": listed(self.fields[name].label for name in names)} if len(names) > 1 else one

    def to_check(self) -> str:
        """What people should check in the first rows, as their columns are proposed or chosen."""
        rows = by_column(self._upload, self._file_rows, self.mapping())
        return self.intake.to_check(rows, self.constants())

    def mapping(self) -> dict[str, int]:
        said = self._said()
        places = {column.name: said.get(column.name) for column in self.intake.columns}
        return {name: place for name, place in places.items() if place is not None}

    def constants(self) -> dict[str, str]:
        said = self._said()
        texts = {column.name: said.get(_constant(column.name)) for column in self.intake.columns}
        return {name: text for name, text in texts.items() if text and said.get(name) is None}

    def _said(self) -> Mapping[str, Any]:
        return self.cleaned_data if self.is_bound else self.initial


def _first_rows(upload: Upload) -> list[FileRow]:
    """Up to ROWS_LOOKED_AT rows, fewer where the first have more than TEXT_LOOKED_AT."""
    rows: list[FileRow] = []
    text = 0
    for row in islice(upload.rows(), ROWS_LOOKED_AT):
        rows.append(row)
        text += sum(len(cell) + 1 for cell in row.cells)
        if text > TEXT_LOOKED_AT:
            break
    return rows


def _constant(name: str) -> str:
    """The name of the field for the text that all rows have instead of a column."""
    return f"{name}_constant"


def _with_campaign(upload: Upload, rows: Sequence[Sequence[str]]) -> str:
    """The upload's `fingerprint`, with the second half replaced by a digest of its rows' campaigns if they name any."""
    places = [place for place, title in enumerate(upload.titles) if key(title) in CAMPAIGN]
    said = sorted({cells[place] for cells in rows for place in places if place < len(cells) and cells[place]})
    half = len(upload.fingerprint) // 2
    of_rows = sha256("\n".join(said).encode()).hexdigest() if said else upload.fingerprint
    return upload.fingerprint[:half] + of_rows[half:]


def _proposal(upload: Upload, rows: Sequence[Sequence[str]], fingerprint: str) -> dict[str, Any]:
    """The proposed matching and constants: those of the latest file with the same headings.

    Without one, the matching is what the headings and cells mean, with people's corrections from files that differ in
    other columns.
    """
    intake = KINDS[upload.kind].intake
    found = by_cells(_places(meant(upload.titles, intake.columns)), upload.titles, rows, intake.columns)
    alike = _alike(upload, fingerprint)
    known, of_campaign = alike.first(), alike.filter(fingerprint=fingerprint).first()
    places = _repeated(found, upload, known) if known else _corrected(found, upload, _before(upload)[:FILES_LOOKED_AT])
    return places | _texts(intake, known, of_campaign)


def _before(upload: Upload) -> QuerySet[Upload]:
    """The account's files of this kind whose columns were matched, the latest first."""
    matched = Upload.objects.filter(account_id=upload.account_id, kind=upload.kind).exclude(mapping={})
    return matched.order_by("-created_at", "-id")


def _alike(upload: Upload, fingerprint: str) -> QuerySet[Upload]:
    """Those with the same headings."""
    return _before(upload).filter(fingerprint__startswith=fingerprint[: len(fingerprint) // 2])


def _texts(intake: type[Intake], known: Upload | None, of_campaign: Upload | None) -> dict[str, str]:
    """The proposed constants: those of the earlier files, or else the columns' own.

    Those that depend on the campaign, such as the product, are only taken from a file of the same campaign.
    """
    texts = {column.name: column.constant for column in intake.columns}
    if known:
        texts |= {name: text for name, text in known.constants.items() if name not in intake.of_campaign}
    if of_campaign:
        texts |= {name: text for name, text in of_campaign.constants.items() if name in intake.of_campaign}
    return {_constant(name): text for name, text in texts.items() if text}


def _repeated(found: dict[str, int], upload: Upload, known: Upload) -> dict[str, int]:
    """The matching of a file with the same headings, as far as its columns are here again."""
    places = _found_again(known.titles, upload.titles)
    again = {name: places[place] for name, place in known.mapping.items() if place in places}
    missing = {name: place for name, place in found.items() if name in known.mapping and place not in again.values()}
    return missing | again


def _places(names: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names) if name}


def _corrected(found: dict[str, int], upload: Upload, before: Iterable[Upload]) -> dict[str, int]:
    """What was found, with people's corrections from the latest file whose chosen columns are all here again.

    A choice from that file gives way if this file has a further column whose heading means the same.
    """
    for other in before:
        places = _found_again(other.titles, upload.titles)
        if not all(place in places and other.titles[place] for place in other.mapping.values()):
            continue
        now, then = (_places(meant(each.titles, KINDS[upload.kind].intake.columns)) for each in (upload, other))
        # What is meant by a heading of this file that the other did not have.
        further = {name for name, place in now.items() if place == found.get(name) and place not in places.values()}
        # People's choices that hold again, and the places of those that give way.
        again = {name: places[place] for name, place in other.mapping.items() if name not in further}
        free = {places[place] for name, place in other.mapping.items() if name in further}
        # What a heading of the other file meant and people left out. It stays out, unless its place is now free, or is
        # a column that the other file did not have.
        cleared = then.keys() - other.mapping.keys() - further
        may_come = free | {*found.values()} - {*places.values()}
        rest = {name: place for name, place in found.items() if name not in cleared or place in may_come}
        return {name: place for name, place in rest.items() if place not in again.values()} | again
    return found


def _found_again(then: list[str], now: list[str]) -> dict[int, int]:
    """The places of titles now, by their places then. First by identical titles, then by those with the same `key`."""
    found: dict[int, int] = {}
    for written in (str, key):
        places = {each: place for place, each in enumerate(_numbered([written(title) for title in now]))}
        for place, each in enumerate(_numbered([written(title) for title in then])):
            if place not in found and each in places and places[each] not in found.values():
                found[place] = places[each]
    return found


def _numbered(titles: list[str]) -> list[tuple[str, int]]:
    """Each title with the number of equal ones before it."""
    return [(title, titles[:place].count(title)) for place, title in enumerate(titles)]

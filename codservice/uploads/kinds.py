"""The kinds of files that can be uploaded, each with an intake and the texts of its pages."""

from typing import Any, NamedTuple

from django.utils.module_loading import import_string

from codservice.files.intake import Intake


class Kind(NamedTuple):
    """A kind of file. `page` names the URL of its upload page, `example` that of a file to begin with, and `home` that
    of the list that it fills.

    `title`, `help` and `home_title` are translated. `path` is the import path of its intake, which is loaded on use.
    """

    path: str
    title: Any
    help: Any
    home: str
    home_title: Any
    page: str
    example: str

    @property
    def intake(self) -> type[Intake]:
        found: type[Intake] = import_string(self.path)
        return found


# Apps add theirs in `ready`.
KINDS: dict[str, Kind] = {}

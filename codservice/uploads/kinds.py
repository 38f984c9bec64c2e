"""What can be uploaded: each kind of file has an intake, and words for its pages."""

from typing import Any, NamedTuple

from django.utils.module_loading import import_string

from codservice.files.intake import Intake


class Kind(NamedTuple):
    """`page` is the name of its upload page's address, `home` that of the list that it fills; texts are translated.

    `path` names its intake, which is loaded when it is asked for.
    """

    path: str
    title: Any
    help: Any
    home: str
    home_title: Any
    page: str

    @property
    def intake(self) -> type[Intake]:
        found: type[Intake] = import_string(self.path)
        return found


# Apps add theirs when they are ready.
KINDS: dict[str, Kind] = {}

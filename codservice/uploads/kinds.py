"""What can be uploaded: each kind of file has an intake, and words for its pages."""

from typing import Any, NamedTuple

from codservice.files.intake import Intake


class Kind(NamedTuple):
    """`page` is the name of its upload page's address, `home` that of the list that it fills; texts are translated."""

    intake: type[Intake]
    title: Any
    help: Any
    home: str
    home_title: Any
    page: str


# Apps add theirs when they are ready.
KINDS: dict[str, Kind] = {}

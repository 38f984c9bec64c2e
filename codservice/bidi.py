"""Names that others chose within our sentences, whichever of the two is written from right to left."""

import unicodedata

from django.utils.translation import get_language_bidi

_TURNING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_TO_THE_LEFT, _TO_THE_RIGHT = {"R", "AL"}, {"L"}
_FIRST_STRONG_ISOLATE, _END = "\u2068", "\u2069"


def unturned(name: object) -> str:
    """Return a name for use in a sentence in the active language, so that it does not reorder the text around it.

    Marks that change the direction of the text after them are removed. A name written in the other direction than the
    sentence is isolated, or else a sign or a number next to it would be shown at its other end.
    """
    text = str(name).translate(_TURNING)
    other = _TO_THE_RIGHT if get_language_bidi() else _TO_THE_LEFT
    is_turned = any(unicodedata.bidirectional(sign) in other for sign in text)
    return f"{_FIRST_STRONG_ISOLATE}{text}{_END}" if is_turned else text

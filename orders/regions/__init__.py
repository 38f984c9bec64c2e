"""The wilayas and communes of Algeria: from what a form, a shop plugin, a courier or a customer wrote to
the code that stands for it.

    find_wilaya("W. d'Alger")             -> Wilaya(code="16", name="Alger", ...)
    find_commune("Bordj el kifan", "16")  -> Commune(code="1630", name="Bordj El Kiffan", ...)

**Never a wrong guess.** Either the text can only mean one place, or `NotFound` says which ones it may mean.
"""

from orders.regions import resolve, tables
from orders.regions.tables import Commune, NotFound, Wilaya

__all__ = ["Commune", "NotFound", "WILAYAS", "Wilaya", "commune", "communes_of", "find_commune", "find_wilaya",
           "wilaya"]


def __getattr__(name: str):
    if name == "WILAYAS":
        return tuple(tables.wilayas().values())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def wilaya(code: str) -> Wilaya:
    """The wilaya with exactly this code (`"06"`), else `NotFound`."""
    found = tables.wilayas().get(code) if isinstance(code, str) else None
    if found is None:
        raise NotFound(f"There is no wilaya with the code {code!r}.")
    return found


def commune(code: str) -> Commune:
    """The commune with exactly this ONS code (`"0601"`), else `NotFound`."""
    found = tables.communes().get(code) if isinstance(code, str) else None
    if found is None:
        raise NotFound(f"There is no commune with the code {code!r}.")
    return found


def communes_of(wilaya_code: str) -> tuple[Commune, ...]:
    """The communes of a wilaya under any of the three maps, by code; else `NotFound`."""
    return tables.communes_by_wilaya()[wilaya(wilaya_code).code]


def find_wilaya(text: object) -> Wilaya:
    """The wilaya that `text` (a code as str or int, or a name) stands for, else `NotFound`."""
    exactly, index = resolve.wilaya_index()
    if type(text) is str and (found := exactly.get(text)):
        return found

    def belongs(place: Wilaya, number: str) -> bool:
        return tables.wilaya_by_code(number) == place

    return resolve.find(text, "a wilaya", tables.wilaya_by_code, exactly, index, belongs)


def find_commune(text: object, wilaya_code: str) -> Commune:
    """The commune of the wilaya (a canonical code) that `text` (a code or name) stands for, else `NotFound`.

    A commune is accepted under the wilaya it lies in by any of the three maps.
    """
    around = wilaya(wilaya_code)
    exactly, index = resolve.commune_index(around.code)
    if type(text) is str and (found := exactly.get(text)):
        return found

    def by_code(number: str) -> Commune | None:
        found = tables.commune_by_code(number)
        return found if found and around.code in found.wilayas else None

    def belongs(place: Commune, number: str) -> bool:
        if len(number) == 5:
            return number[:2] in place.wilayas
        named = tables.wilaya_by_code(number)
        return named.code in place.wilayas if named else tables.commune_by_code(number) == place

    family = {code for place in tables.communes_by_wilaya()[around.code] for code in place.wilayas}
    wilaya_names = resolve.wilaya_index()[1]

    def within(words: list[str]) -> bool:
        try:
            found = wilaya_names.exact(words)
        except resolve.Ambiguous:
            return False
        return found is not None and found.code in family

    return resolve.find(text, f"a commune of {around.name}", by_code, exactly, index, belongs, within)

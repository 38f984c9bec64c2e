"""Files of products: their columns' headings, how rows become products and stock, and products as rows."""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from codservice import values
from codservice.errors import Errors, Invalid
from codservice.files.headings import Column
from codservice.files.intake import Entry, Intake, Taken, altered, failure
from codservice.long_lists import batches_by
from inventory import catalog
from inventory.models import MAX_LINK, MAX_QUANTITY, MAX_SCRIPT, Product, ProductQuerySet

BATCH = 1000  # products that `batches` holds in memory at once

COLUMNS = (
    Column(
        "sku",
        _("SKU"),
        ("reference produit", "ref produit", "code article", "code produit", "product code", "stock code",
         "variant sku", "ugs", "رمز المنتج", "مرجع المنتج"),
        vague=("reference", "ref", "المرجع", "code", "الرمز"),
    ),
    Column(
        "name",
        _("Name"),
        ("product", "product name", "title", "produit", "nom produit", "nom article", "designation", "libelle",
         "المنتج", "اسم المنتج", "المنتوج", "اسم المنتوج", "السلعة", "اسم السلعة"),
        vague=("article", "item"),
    ),
    Column(
        "price",
        _("Price"),
        ("unit price", "regular price", "variant price", "prix unitaire", "prix unit", "prix vente", "prix ttc",
         "pu", "p u", "pu ttc", "tarif regulier", "سعر الوحدة", "سعر البيع", "الثمن"),
        beside=(("prix vente", "prix unitaire"), ("prix vente", "pu"), ("prix vente", "p u"), ("سعر بيع", "ثمن")),
        vague=("tarif",),
    ),
    Column(
        "stock_quantity",
        _("In stock"),
        ("stock", "quantity", "qty", "quantity in stock", "stock quantity", "variant inventory qty", "inventory",
         "quantite", "qte", "quantite stock", "quantite en stock", "qte stock", "qte en stock", "stock actuel",
         "stock disponible", "stock dispo", "disponible",
         "المخزون", "الكمية", "العدد", "كمية المخزون", "الكمية المتوفرة"),
        # Another column may count what is bought or sold.
        beside=tuple(product(("stock actuel", "stock disponible", "stock dispo", "stock", "quantite stock",
                              "quantite en stock", "qte stock", "qte en stock", "مخزون"),
                             ("quantite", "qte", "quantity", "qty", "كميه", "عدد"))),
        vague=("pieces", "nb", "nbr", "nbre"),
    ),
    Column("is_active", _("For sale"), ("on sale", "active", "actif", "active product", "نشط", "للبيع")),
    Column(
        "image_url",
        _("Link to a picture"),
        ("image", "picture", "photo", "image link", "image src", "lien image", "lien photo", "url image", "الصورة",
         "رابط الصورة"),
    ),
    Column("script", _("What agents say about it"), ("what agents say of it", "argumentaire")),
)  # fmt: skip


class ProductRows(Intake):
    """A row is a product, which is created, or changed by its SKU.

    An empty cell or a missing column leaves a field as it is, so a list of SKUs and stock is enough. A new product
    needs a name and a price. The second row with a SKU is refused: which of the two was meant?
    """

    columns = COLUMNS
    required = (("sku",), tuple(column.name for column in COLUMNS[1:]))
    counted: Mapping[str, Any] = {
        catalog.Done.CREATED.value: pgettext_lazy("products", "New"),
        catalog.Done.UPDATED.value: pgettext_lazy("products", "Changed"),
        catalog.Done.UNCHANGED.value: pgettext_lazy("products", "Unchanged"),
    }
    example = (
        {"sku": "ROBE-M", "name": "Robe, taille M", "price": 4500, "stock_quantity": 20},
        {"sku": "FOULARD", "name": "Foulard", "price": 1200, "stock_quantity": 35},
    )
    batch = 5000  # rows: some tenths of a second for which the stock of their products is locked

    def name_of(self, entry: Entry) -> str | None:
        """Its SKU without marks, for `note`, which asks nothing of the catalog: a resumed file has many rows behind it.

        So where SKUs of two products differ by marks, rows may be taken for each other's across that border.
        """
        return next(reversed(skus_of(entry[0].cells)), None)

    def take(self, entries: Sequence[Entry]) -> Taken:
        drafts: list[catalog.Draft] = []
        refused: list[tuple[Entry, Errors]] = []
        known = self._known(entries)
        for entry in entries:
            (row,) = entry
            first, cells = row.line, row.cells
            if sku := _meant(skus_of(cells), known):
                first, cells = self._lines.setdefault(sku, row.line), cells | {"sku": sku}
            try:
                draft = _read(cells, is_known=cells.get("sku") in known)
                if first != row.line:
                    raise Invalid({"sku": [f"Line {first} has the same SKU."]})
            except Invalid as error:
                refused.append((entry, error.errors))
            else:
                drafts.append(draft)
        saved = catalog.save(self.account_id, drafts, actor=self.actor, sets_stock=True)
        return Taken(Counter(each.done.value for each in saved), refused)

    def _known(self, entries: Sequence[Entry]) -> set[str]:
        """Of the SKUs whose rows cannot make a product, those of existing products, which are never deleted.

        No statement if every row could make one.
        """
        cells = [row.cells for entry in entries for row in entry]
        skus = {sku for each in cells if not _could_be_new(each) for sku in skus_of(each)}
        return set(Product.objects.filter(account_id=self.account_id, sku__in=skus).values_list("sku", flat=True))


def skus_of(cells: Mapping[str, str]) -> tuple[str, ...]:
    """What SKU the row may mean, as the catalog has it; none if it cannot be one.

    As it is written, if a product has that; else without the invisible marks around it that spreadsheets add.
    """
    try:
        sku = values.text(cells.get("sku", ""), max_length=64)
    except ValueError:
        return ()
    return tuple(dict.fromkeys((sku, values.visible_part(sku))))


def _meant(skus: Sequence[str], known: Container[str]) -> str | None:
    """Which of `skus_of` a row means, where `known` are those of existing products; None if it has none."""
    return next((sku for sku in skus if sku in known), skus[-1] if skus else None)


def _could_be_new(cells: Mapping[str, str]) -> bool:
    """Whether the row has a name, a price, and a SKU that means one thing, whether or not a product has it: it neither
    looks altered by a spreadsheet nor has invisible marks around it."""
    is_clear = len(skus_of(cells)) < 2 and not altered(cells.get("sku", ""))
    return is_clear and bool(cells.get("name") and cells.get("price"))


def _read(row: Mapping[str, str], *, is_known: bool) -> catalog.Draft:
    """Read a row by the API's rules. Raises Invalid with all that is wrong.

    Empty cells are left out; only a product that `is_known` may lack a name or a price, or have a SKU that looks
    altered by a spreadsheet."""
    columns: dict[str, Any] = {}
    errors: Errors = {}
    for name, read in _READ_COLUMN.items():
        text = row.get(name, "")
        try:
            if said := failure(text, is_words=name == "name"):
                raise ValueError(said)
            if name == "sku" and not is_known and (said := altered(text)):
                raise ValueError(said)
            if text or name == "sku":
                columns[name] = read(text)
            elif name in ("name", "price") and not is_known:
                raise ValueError("There is no product with this SKU yet, and a new product needs this.")
        except ValueError as error:
            errors[name] = [str(error)]
    if errors:
        raise Invalid(errors)
    return catalog.Draft(**columns)


def _read_amount(text: str) -> Decimal:
    return values.amount(values.plain_amount(text))


def _read_quantity(text: str) -> int:
    return values.digits(values.plain_integer(text), 0, MAX_QUANTITY)


_READ_COLUMN: dict[str, Callable[[str], Any]] = {
    "sku": partial(values.text, max_length=64),
    "name": lambda text: values.text(values.on_one_line(text), max_length=255),
    "price": _read_amount,
    "stock_quantity": _read_quantity,
    "is_active": values.yes_or_no,
    "image_url": partial(values.link, max_length=MAX_LINK),
    "script": partial(values.text, max_length=MAX_SCRIPT, free=True),
}


def batches(
    products: ProductQuerySet, *, around: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Iterator[list[list[Any]]]:
    """The COLUMNS of each product, by SKU, in batches of up to BATCH; `ProductRows` can read them again.

    Each batch is a statement of its own, run within `around`.
    """
    words = {True: gettext("yes"), False: gettext("no")}
    names = [column.name for column in COLUMNS]
    rows = products.values_list(*names, named=True)
    for batch in batches_by(rows, ["sku"], BATCH, around=around):
        yield [list(row._replace(is_active=words[row.is_active])) for row in batch]

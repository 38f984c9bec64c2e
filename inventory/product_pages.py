"""The account's pages about products: find, create and change them, set their stock and see its movements."""

from itertools import chain
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from codservice import values, wording
from codservice.accounts import security_log
from codservice.accounts.account_page import account_page
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from codservice.accounts.team import Right
from codservice.concurrent_edits import SinceShown
from codservice.errors import Refused
from codservice.files.downloads import table_answer
from codservice.form_fields import AmountField, Form, FreeText, WrittenText
from codservice.i18n_tags import written_amount
from codservice.long_lists import IsOneOf
from codservice.searches import batch_by_batch, searching
from codservice.uploads import account_pages as uploads
from inventory import catalog, product_files, stock
from inventory.filters import ProductFilter
from inventory.models import MAX_LINK, MAX_QUANTITY, MAX_SCRIPT, Product, ProductQuerySet

PAGE = 25  # products, or movements, on a page


class SearchForm(Form):
    """The list's filters as form fields. ProductFilter reads what was chosen, as it reads the API's parameters."""

    q = forms.CharField(
        label=gettext_lazy("Name or SKU"),
        widget=forms.TextInput(attrs={"type": "search", "dir": "auto"}),
        required=False,
    )
    is_active = forms.ChoiceField(
        label=gettext_lazy("Availability"),
        choices=[
            ("", gettext_lazy("all")),
            ("true", gettext_lazy("for sale")),
            ("false", gettext_lazy("not for sale")),
        ],
        required=False,
    )
    stock_below = forms.CharField(
        label=gettext_lazy("Stock below"),
        widget=forms.TextInput(attrs={"inputmode": "numeric", "dir": "ltr"}),
        required=False,
    )


class LinkField(WrittenText):
    """A web address as browsers read it; we never load it ourselves."""

    widget = forms.TextInput(attrs={"dir": "ltr"})

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value)
        try:
            return values.link(text, max_length=MAX_LINK) if text else ""
        except ValueError:
            said = _("Enter a complete address that begins with https://, such as https://shop.example/robe.jpg.")
            raise forms.ValidationError(said) from None


class StockField(forms.IntegerField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=MAX_QUANTITY, **kwargs)

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return super().widget_attrs(widget) | {"dir": "ltr", "autocomplete": "off"}


class ProductForm(Form):
    """A product's record."""

    name = WrittenText(label=gettext_lazy("Name"), max_length=255)
    price = AmountField(label=gettext_lazy("Price"), max_length=20, help_text=gettext_lazy("In dinars."))
    image_url = LinkField(
        label=gettext_lazy("Link to a picture"),
        max_length=MAX_LINK,
        required=False,
        help_text=gettext_lazy("A link for agents to open. It begins with https://."),
    )
    script = FreeText(
        label=gettext_lazy("What agents say about it"),
        max_length=MAX_SCRIPT,
        required=False,
        widget=forms.Textarea(attrs={"rows": 10}),
        help_text=gettext_lazy("Sizes, colours or conditions, which agents read out on the phone."),
    )
    is_active = forms.BooleanField(label=gettext_lazy("For sale"), required=False, initial=True)


class NewProductForm(ProductForm):
    sku = WrittenText(
        label=gettext_lazy("SKU"),
        max_length=64,
        help_text=gettext_lazy("Your own code for the product. It cannot be changed later."),
        widget=forms.TextInput(attrs={"dir": "ltr"}),
    )
    stock_quantity = StockField(label=gettext_lazy("In stock"), initial=0)
    field_order = ("sku", "name", "price", "stock_quantity")


class ProductChangeForm(SinceShown, ProductForm):
    """The record of a product that exists."""

    def __init__(self, data: Any = None, *, product: Product) -> None:
        record = {name: getattr(product, name) for name in catalog.Record._fields}
        super().__init__(data, initial=record | {"price": written_amount(product.price)})


class StockForm(Form):
    """A new stock, to replace the one that was seen."""

    quantity = StockField(label=gettext_lazy("New stock"))
    expected_quantity = StockField(widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, product: Product) -> None:
        shown = {"quantity": product.stock_quantity, "expected_quantity": product.stock_quantity}
        super().__init__(data, initial=shown)


# --- Pages -----------------------------------------------------------------------------------------------------------


@account_page()
@require_safe
def products(request: HttpRequest, account: Account) -> HttpResponse:
    """The account's products by SKU; `after` is the last SKU of the page before."""
    form, status = SearchForm(request.GET), 200
    form.is_valid()
    given = _given(request)
    mine, chosen = _mine(request, account)
    after = request.GET.get("after", "").replace("\0", "")
    try:
        with searching(account.id, given):
            rows = list(ProductFilter(given, mine).read().filter(sku__gt=after).order_by("sku")[: PAGE + 1])
    except Refused as error:
        form.add_errors(error, by="q", in_words=wording.in_words)
        rows, status = [], error.status
    context = {
        "form": form,
        "products": rows[:PAGE],
        "is_searched": bool(given or chosen),
        "chosen": chosen,
        "after": after,
        "next": rows[PAGE - 1].sku if len(rows) > PAGE else "",
    }
    return render(request, "inventory/products.html", context, status=status)


def _given(request: HttpRequest) -> dict[str, str]:
    """The filters that the address sets. ProductFilter takes ASCII digits only; people type others too."""
    given = ProductFilter.chosen(request.GET)
    return given | {"stock_below": values.plain_integer(given["stock_below"])} if "stock_below" in given else given


def _mine(request: HttpRequest, account: Account) -> tuple[ProductQuerySet, catalog.Choice | None]:
    """The account's products, or those of the Choice that the address names, and that choice."""
    mine, chosen = Product.objects.filter(account=account), catalog.CHOICES.get(request.GET.get("only", ""))
    return (mine.filter(IsOneOf("id", chosen.ids(account))) if chosen else mine), chosen


@account_page()
@require_safe
def download(request: HttpRequest, account: Account, form: str) -> HttpResponseBase:
    """All products that match the list's filters, as CSV or XLSX that can be uploaded again; uses constant memory."""
    given, mine = _given(request), _mine(request, account)[0]
    around = batch_by_batch(account.id, given)
    try:
        found = product_files.batches(ProductFilter(given, mine).read(), around=around)
        first = next(found, [])
    except Refused:  # the list shows the refusal in words
        return redirect(f"{reverse('account-products')}?{request.GET.urlencode()}")
    header = [str(column.label) for column in product_files.COLUMNS]
    return table_answer(request, f"products.{form}", header, chain.from_iterable(chain([first], found)))


@account_page(look=Right.WRITE)
def new(request: HttpRequest, account: Account) -> HttpResponse:
    form = NewProductForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            with transaction.atomic():
                draft = catalog.Draft(**form.cleaned_data)
                made = catalog.make(account.id, draft, actor=Actor.of_merchant(request.user))
                _note(account, made.id, draft.sku)
        except catalog.Exists as refused:
            if refused.as_drafted:
                messages.info(request, _("This product already exists. Nothing was changed."))
                return redirect("account-product", id=refused.as_drafted)
            form.add_error("sku", refused.message)
        else:
            messages.success(request, _("The product is created."))
            return redirect("account-product", id=made.id)
    return render(request, "inventory/new.html", {"form": form}, status=422 if form.errors else 200)


@account_page()
def product(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Show or change a product's record, and show its stock with its movements."""
    mine = Product.objects.filter(account=account)
    if request.method != "POST":
        return _page(request, get_object_or_404(mine, id=id))
    with transaction.atomic():
        Account.lock(account.id)  # or others could change the record after it is compared with what was shown
        shown = get_object_or_404(mine, id=id)
        form = ProductChangeForm(request.POST, product=shown)
        if form.is_valid():
            draft = catalog.Draft(shown.sku, **form.changes)
            (saved,) = catalog.save(account.id, [draft], actor=Actor.of_merchant(request.user), sets_stock=False)
            if saved.done is not catalog.Done.UNCHANGED:
                _note(account, id, shown.sku)
    if form.errors:
        return _page(request, shown, form=form)
    messages.success(request, _("The product is saved."))
    return redirect("account-product", id=id)


@account_page(look=Right.WRITE)
def set_stock(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Set the stock, unless it has changed to another quantity since the page was opened. GET leads to the product."""
    shown = get_object_or_404(Product, id=id, account=account)
    if request.method != "POST":
        return redirect("account-product", id=id)
    form = StockForm(request.POST, product=shown)
    if not form.is_valid():
        return _page(request, shown, stock_form=form)
    with transaction.atomic():
        result = stock.set_quantities(
            account.id, [stock.Update(id=id, **form.cleaned_data)], actor=Actor.of_merchant(request.user)
        )
        if not result.errors:
            _note(account, id, shown.sku)
    as_asked = Product.objects.filter(id=id, account=account, stock_quantity=form.cleaned_data["quantity"])
    if result.errors and not as_asked.exists():
        said = _(
            "The stock has changed since you opened the page, so yours was not saved. Check it, then enter yours again."
        )
        messages.error(request, said)
    else:
        messages.success(request, _("The stock is saved."))
    return redirect("account-product", id=id)


def _note(account: Account, id: UUID, sku: str) -> None:
    security_log.note(security_log.Action.PRODUCT, target=sku, target_id=id, account_id=account.id)


def _page(
    request: HttpRequest, shown: Product, form: ProductChangeForm | None = None, stock_form: StockForm | None = None
) -> HttpResponse:
    movements = shown.movements.order_by("-id")
    if (before := values.digits_or_none(request.GET.get("before", ""), most=2**63 - 1)) is not None:
        movements = movements.filter(id__lt=before)
    rows = list(movements[: PAGE + 1])
    context = {
        "product": shown,
        "form": form or ProductChangeForm(product=shown),
        "stock_form": stock_form or StockForm(product=shown),
        "movements": rows[:PAGE],
        "older": rows[PAGE - 1].id if len(rows) > PAGE else "",
    }
    return render(request, "inventory/product.html", context, status=422 if form or stock_form else 200)


urlpatterns = [
    path("products", products, name="account-products"),
    path("products/new", new, name="account-product-new"),
    path("products/upload", uploads.new, {"kind": "products"}, name="account-products-upload"),
    path("products/upload/example.xlsx", uploads.example, {"kind": "products"}, name="account-products-example"),
    path("products/download.csv", download, {"form": "csv"}, name="account-products-csv"),
    path("products/download.xlsx", download, {"form": "xlsx"}, name="account-products-xlsx"),
    path("products/<uuid:id>", product, name="account-product"),
    path("products/<uuid:id>/stock", set_stock, name="account-product-stock"),
]

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from codservice import health


class InventoryConfig(AppConfig):
    name = "inventory"

    def ready(self) -> None:
        from codservice.files.account_export import TABLES, ExportedTable
        from codservice.uploads.kinds import KINDS, Kind
        from inventory import ledger
        from inventory.models import Product, StockMovement

        health.SLOW_CHECKS["ledger"] = ledger.problem
        KINDS["products"] = Kind(
            path="inventory.product_files.ProductRows",
            title=_("Products from a file"),
            help=_(
                "Each row is a product, found by its SKU. New products are created, and products you already "
                "have are changed. An empty cell changes nothing, so a list of SKUs and stock is enough to "
                "set the stock."
            ),
            home="account-products",
            home_title=_("Products"),
            page="account-products-upload",
            example="account-products-example",
        )
        TABLES["products"] = ExportedTable(Product, ("sku",))
        TABLES["stock_movements"] = ExportedTable(StockMovement, ("id",), link="product", below="products")

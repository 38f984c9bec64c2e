from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from codservice import health
from codservice.retention import SWEEPS


class OrdersConfig(AppConfig):
    name = "orders"
    verbose_name = _("Orders")

    def ready(self) -> None:
        from codservice import wording
        from codservice.files import account_export
        from codservice.files.account_export import ExportedTable
        from codservice.uploads.kinds import KINDS, Kind
        from inventory.catalog import CHOICES, Choice
        from orders import counts, day_sums, metrics, needs, retention
        from orders.models import CallNote, Erasure, Order, OrderEdit, OrderItem, ShippingFee, StatusChange

        health.SLOW_CHECKS |= {"order_counts": counts.problem, "day_sums": day_sums.problem}
        metrics.register()
        SWEEPS["customers"] = retention.anonymise_customers
        SWEEPS["test_orders"] = retention.delete_test_orders
        KINDS["orders"] = Kind(
            path="orders.order_files.rows.UploadedOrderRows",
            title=_("Orders from a file"),
            help=_(
                "Each row is a line of an order. Consecutive rows with the same order number are one order. "
                "Orders whose number you already have are left as they are."
            ),
            home="account-orders",
            home_title=_("Orders"),
            page="account-orders-upload",
            example="account-orders-example",
        )
        wording.NAMED |= dict.fromkeys(("names", "wilaya"), "orders.templatetags.orders.names_of")
        CHOICES[needs.RUNNING_OUT] = Choice(
            _("Running out: fewer are left than were ordered in the last week"), needs.running_out
        )
        account_export.TABLES |= {
            "orders": ExportedTable(Order, ("created_at", "id")),
            "order_items": ExportedTable(OrderItem, ("position",), link="order", below="orders"),
            "status_changes": ExportedTable(StatusChange, ("at", "id"), link="order", below="orders"),
            "call_notes": ExportedTable(CallNote, ("created_at", "id"), link="order", below="orders"),
            "order_edits": ExportedTable(OrderEdit, ("at", "id"), link="order", below="orders"),
            "shipping_fees": ExportedTable(ShippingFee, ("wilaya_code",)),
            "erasures": ExportedTable(Erasure, ("created_at", "id")),
        }

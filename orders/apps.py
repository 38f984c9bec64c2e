from django.apps import AppConfig

from codservice import health
from codservice.operations.retention import SWEEPS


class OrdersConfig(AppConfig):
    name = "orders"

    def ready(self) -> None:
        from orders import counts, metrics, retention

        health.SLOW_CHECKS["order_counts"] = counts.problem
        metrics.register()
        SWEEPS["customers"] = retention.anonymise_customers

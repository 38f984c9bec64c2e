from pathlib import Path

from django.apps import AppConfig

from codservice import health
from codservice.docs import library
from codservice.retention import SWEEPS


class OrdersConfig(AppConfig):
    name = "orders"

    def ready(self) -> None:
        from orders import counts, metrics, retention

        health.SLOW_CHECKS["order_counts"] = counts.problem
        metrics.register()
        for table in ("wilayas.csv", "communes.csv"):
            library.publish(f"regions/{table}", Path(__file__).parent / "regions/data" / table)
        SWEEPS["customers"] = retention.anonymise_customers

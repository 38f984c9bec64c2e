from django.apps import AppConfig

from codservice import health


class InventoryConfig(AppConfig):
    name = "inventory"

    def ready(self) -> None:
        from inventory import ledger

        health.SLOW_CHECKS["ledger"] = ledger.problem

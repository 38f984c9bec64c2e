from django.apps import AppConfig

from codservice.retention import SWEEPS


class ApiConfig(AppConfig):
    name = "codservice.api"

    def ready(self) -> None:
        from codservice.api import retention

        SWEEPS["idempotency_keys"] = retention.idempotency_keys

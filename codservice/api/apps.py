from django.apps import AppConfig

from codservice.retention import SWEEPS


class ApiConfig(AppConfig):
    name = "codservice.api"
    label = "api"
    verbose_name = "API"

    def ready(self) -> None:
        from codservice.api import retention

        SWEEPS["idempotency_keys"] = retention.idempotency_keys

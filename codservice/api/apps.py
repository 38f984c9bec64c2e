from django.apps import AppConfig

from codservice.retention import SWEEPS


class ApiConfig(AppConfig):
    name = "codservice.api"
    label = "api"
    verbose_name = "API"

    def ready(self) -> None:
        from codservice.api import idempotency, schema  # noqa: F401  (registers the description of bearer keys)

        SWEEPS["idempotency_keys"] = idempotency.forget_old

from django.apps import AppConfig

from codservice.retention import SWEEPS, old_rows


class ApiConfig(AppConfig):
    name = "codservice.api"

    def ready(self) -> None:
        from codservice.api.models import KEPT_FOR

        SWEEPS["idempotency_keys"] = old_rows("api_idempotencyrecord", "idempotency_keys", KEPT_FOR, at="created_at")

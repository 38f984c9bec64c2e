from django.apps import AppConfig

from codservice import health
from codservice.retention import SWEEPS


class WebhooksConfig(AppConfig):
    name = "webhooks"

    def ready(self) -> None:
        from webhooks import metrics, queue, registry, retention

        health.CHECKS["deliveries"] = queue.problem
        metrics.register()
        health.SLOW_CHECKS["secrets"] = registry.problem_with_secrets
        health.FIGURES["oldest_due_seconds"] = queue.oldest_due
        SWEEPS["deliveries"] = retention.deliveries
        SWEEPS["events"] = retention.events
        SWEEPS["webhooks"] = retention.webhooks
        SWEEPS["previous_secrets"] = retention.previous_secrets

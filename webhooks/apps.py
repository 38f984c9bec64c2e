from django.apps import AppConfig

from codservice import health


class WebhooksConfig(AppConfig):
    name = "webhooks"

    def ready(self) -> None:
        from webhooks import queue

        health.CHECKS["deliveries"] = queue.problem

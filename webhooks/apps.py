from django.apps import AppConfig
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from codservice import health, restored
from codservice.retention import SWEEPS


class WebhooksConfig(AppConfig):
    name = "webhooks"
    verbose_name = _("Webhooks")

    def ready(self) -> None:
        from codservice.files import account_export
        from codservice.files.account_export import ExportedTable
        from webhooks import feed, metrics, queue, registry, retention
        from webhooks.models import Attempt, Delivery, Event, Webhook

        health.CHECKS["deliveries"] = queue.problem
        metrics.register()
        health.SLOW_CHECKS["secrets"] = registry.problem_with_secrets
        restored.NOTES.append(feed.note_restored)
        health.FIGURES["oldest_due_seconds"] = queue.oldest_due
        SWEEPS["deliveries"] = retention.deliveries
        SWEEPS["events"] = retention.events
        SWEEPS["webhooks"] = retention.webhooks
        SWEEPS["previous_secrets"] = retention.previous_secrets
        account_export.TABLES |= {
            "webhooks": ExportedTable(Webhook, ("created_at", "id")),
            "events": ExportedTable(Event, ("kind", "position", "id"), where=Q(position__isnull=False), most=100),
            "deliveries": ExportedTable(
                Delivery, ("created_at", "id"), link="webhook", below="webhooks", one_by_one=True
            ),
            "attempts": ExportedTable(Attempt, ("number", "id"), link="delivery", below="deliveries"),
        }

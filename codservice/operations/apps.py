from django.apps import AppConfig
from django.conf import settings

from codservice import health, metrics, observability


class OperationsConfig(AppConfig):
    name = "codservice.operations"

    def ready(self) -> None:
        from codservice.operations import checks, duties

        observability.start(sentry_dsn=settings.SENTRY_DSN, otlp_endpoint=settings.OTEL_EXPORTER_OTLP_ENDPOINT)
        metrics.add_figure(
            "codservice_duty_age_seconds",
            "Seconds since a recurring duty was last done: a sign of life of beat or a worker, a round of retention,"
            " the check for webhooks that have stopped answering. `clock`: since the database's clock was set.",
            lambda: [((name,), age) for name, age in duties.ages().items()],
            labels=["duty"],
        )
        health.SLOW_CHECKS |= {
            "disk": checks.disk,
            "migrations": checks.migrations,
            "clock": checks.clock,
            "sessions": checks.sessions,
            "worker": checks.worker,
            "beat": checks.beat,
            "retention": checks.retention,
            "mail": checks.mail,
        }
        health.FIGURES["disk_space"] = checks.space

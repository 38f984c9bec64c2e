from django.apps import AppConfig

from codservice import health


class OperationsConfig(AppConfig):
    name = "codservice.operations"
    label = "operations"
    verbose_name = "Operations"

    def ready(self) -> None:
        from codservice.operations import checks

        health.SLOW_CHECKS |= {
            "migrations": checks.migrations,
            "clock": checks.clock,
            "beat": checks.beat,
            "retention": checks.retention,
        }

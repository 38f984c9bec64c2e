from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig

from codservice.retention import SWEEPS


class ConsoleConfig(AdminConfig):
    """Django's admin with our site: the agents' console at /console/."""

    default_site = "agents.console.Console"


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Call center"

    def ready(self) -> None:
        from agents import retention

        SWEEPS["claims"] = retention.forget_claims

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig

from codservice.retention import SWEEPS


class ConsoleConfig(SimpleAdminConfig):
    """Django's admin with our site, the agents' console at /console/. `agents.urls` starts its autodiscovery."""

    default_site = "agents.console.Console"


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Call center"

    def ready(self) -> None:
        from agents import retention
        from agents.desk import claims
        from agents.models import CallingPeriod, CallingRules
        from agents.supervision import summing
        from codservice.accounts.models import LEFT_BEHIND
        from codservice.files.account_export import TABLES, ExportedTable
        from orders import anonymising, day_sums

        LEFT_BEHIND["claims"] = claims.release_all
        SWEEPS["claims"] = retention.forget_claims
        anonymising.COPIES["claims"] = retention.forget_customer
        day_sums.OVER_ALL["calls"] = summing.sum_up
        TABLES["calling_rules"] = ExportedTable(CallingRules, ("account_id",))
        TABLES["calling_periods"] = ExportedTable(CallingPeriod, ("id",))

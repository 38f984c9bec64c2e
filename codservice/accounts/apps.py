from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.utils.translation import gettext_lazy as _

from codservice.retention import SWEEPS


class AccountsConfig(AppConfig):
    name = "codservice.accounts"
    verbose_name = _("Merchants and people")

    def ready(self) -> None:
        from codservice.accounts import security_log, sessions, team
        from codservice.accounts.models import LEFT_BEHIND, User

        user_logged_in.connect(sessions.signed_in)
        LEFT_BEHIND["sessions"] = sessions.end
        SWEEPS["sessions"] = sessions.forget_expired
        SWEEPS["security-log"] = security_log.forget_old
        SWEEPS["invitations"] = team.forget_old
        security_log.connect(User)

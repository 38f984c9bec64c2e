from django.apps import AppConfig

from codservice.retention import SWEEPS


class AccountsConfig(AppConfig):
    name = "codservice.accounts"
    label = "accounts"
    verbose_name = "Accounts"

    def ready(self) -> None:
        from codservice.accounts import sessions

        SWEEPS["sessions"] = sessions.forget_expired

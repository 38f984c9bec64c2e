from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "codservice.accounts"
    label = "accounts"
    verbose_name = "Accounts"

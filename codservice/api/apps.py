from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "codservice.api"
    label = "api"
    verbose_name = "API"

    def ready(self) -> None:
        from codservice.api import schema  # noqa: F401  (registers the description of bearer keys)

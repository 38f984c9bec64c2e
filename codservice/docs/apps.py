from django.apps import AppConfig


class DocsConfig(AppConfig):
    name = "codservice.docs"
    label = "docs"
    verbose_name = "Documentation"

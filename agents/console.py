"""The agents' console: Django's admin site, with our name on it."""

from django.contrib.admin import AdminSite


class Console(AdminSite):
    site_header = "codservice"
    site_title = "codservice console"
    index_title = "Console"
    final_catch_all_view = False

"""For the Dockerfile: compiles what the roles and commands load, which is a fifth of all that is installed.

The image's user cannot write, so what is not compiled here would be compiled at each start.
"""

import importlib
import os
import sys

os.environ["DJANGO_SETTINGS_MODULE"] = "codservice.settings"
sys.dont_write_bytecode = False

from codservice.run import beat, prepare, pulse, web, worker  # noqa: E402, F401

web.preload()
worker.preload()

from django.core.management import get_commands, load_command_class  # noqa: E402

for name, app in get_commands().items():
    if not app.startswith("django.contrib.gis"):
        load_command_class(app, name)
# Modules that settings name or that are only imported when needed.
for name in (
    "django.template.loaders.cached",
    "django.core.mail.backends.smtp",
    "django.core.mail.backends.console",
    "sentry_sdk",
):
    importlib.import_module(name)

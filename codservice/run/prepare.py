"""`python -m codservice.run.prepare`: bring the database up to date before the service uses it.

One process for all of it: loading Django once instead of three times is a second of every start.
"""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command, get_commands


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    import django

    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
    if "create_operator" in get_commands():
        call_command("create_operator")
    if os.environ.get("DEMO") == "1":
        call_command("seed_demo")


if __name__ == "__main__":
    try:
        main()
    except ImproperlyConfigured as error:
        sys.exit(f"codservice: {error}")

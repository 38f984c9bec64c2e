"""`python -m codservice.run.prepare`: bring the database up to date before the service uses it."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from codservice.run import counters


def main() -> None:
    """Migrate, create the first operator and, with DEMO, the demo data. Each does nothing if it was done already.

    Without demo data the service starts too: once it is used, somebody else may hold the demo account.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    import django
    from django.conf import settings

    django.setup()
    try:
        call_command("migrate", interactive=False, verbosity=0)
        call_command("create_operator")
    except CommandError as error:
        sys.exit(f"codservice: {error}")
    if settings.DEMO:
        try:
            call_command("seed_demo")
        except CommandError as error:
            print(f"codservice: no demo data was added: {error}", file=sys.stderr)


if __name__ == "__main__":
    # Each run would leave files of counters in that folder. Not in `main`: a fork has loaded the counters, with their
    # folder.
    os.environ.pop(counters.VARIABLE, None)
    try:
        main()
    except ImproperlyConfigured as error:
        sys.exit(f"codservice: {error}")

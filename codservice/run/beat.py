"""Beat: `python -m codservice.run.beat`, with its schedule file in the data folder.

It sends tasks by name at the times in `CELERY_BEAT_SCHEDULE`; for that it needs the settings, neither Django's apps
nor Celery's command line (whose interactive shell weighs ten megabytes). `celery -A codservice beat` does the same in
twice the memory.
"""

import os

from celery import Celery
from celery.signals import setup_logging

from codservice import data_folder, logs

from .kernel import return_memory_soon

# Never the current application of a process that also has the real one.
app = Celery("codservice", fixups=[], set_as_current=False)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    app.config_from_object("django.conf:settings", namespace="CELERY")
    setup_logging.connect(logs.configure)
    return_memory_soon()
    app.Beat(schedule=str(data_folder.data_dir() / "celerybeat-schedule"), quiet=True).run()


if __name__ == "__main__":
    main()

"""The Celery application, for beat and workers. The tasks are in each app's `tasks.py`."""

import logging
import os
from typing import Any

from celery import Celery
from celery import Task as CeleryTask
from celery.signals import setup_logging, worker_shutting_down

from codservice import logs, stops
from codservice.postgresql import is_away, is_behind

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

logger = logging.getLogger(__name__)


class Task(CeleryTask):
    """A task that ends with one log line, and `missed`, when the database is away or not migrated yet."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if is_away(error):
                reason = str(error).partition("\n")[0] or type(error).__name__
            elif is_behind(error):
                reason = "it is not up to date. Run `manage.py migrate`."
            else:
                raise
            logger.warning("%s was not run, because the database cannot be used: %s", self.name, reason)
            self.missed(error)

    def missed(self, error: Exception) -> None:
        """What else is done after the log line: nothing where beat sends the task again soon."""


app = Celery("codservice", task_cls=Task)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
setup_logging.connect(logs.configure)


@worker_shutting_down.connect
def stop(**kwargs: object) -> None:
    stops.stopping.set()

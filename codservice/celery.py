"""The Celery application: beat and worker. What they run stands in each app's `tasks.py`."""

import os

from celery import Celery
from celery.signals import setup_logging

from codservice import logs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

app = Celery("codservice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
setup_logging.connect(logs.configure)

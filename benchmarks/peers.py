"""The peers of the delivery engine: one Celery task per delivery, and the package django-webhook.

Both use the same PostgreSQL and Redis as the engine, and post to the same receiver.
"""

import subprocess
import sys
import tempfile
import textwrap
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.postgresql import psql
from benchmarks.service import Installation
from codservice import data_folder

EACH = 3_000
PACKAGED = 1_000
DJANGO_WEBHOOK = "django-webhook==0.0.15"

SETTINGS = """
    import os, dj_database_url
    SECRET_KEY = "bench"
    DATABASES = {{"default": dj_database_url.parse(os.environ["PEER_DATABASE_URL"])}}
    DATABASES["default"]["CONN_MAX_AGE"] = None
    INSTALLED_APPS = ["django.contrib.contenttypes", {apps} "shop"]
    DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
    USE_TZ = True
    CELERY_BROKER_URL = os.environ["PEER_BROKER_URL"]
    CELERY_TASK_IGNORE_RESULT = True
    {more}
"""
TUNED = "CELERY_WORKER_PREFETCH_MULTIPLIER = 64; CELERY_DB_REUSE_MAX = 10000"
TOLD = 'DJANGO_WEBHOOK = {"MODELS": ["shop.Order"]}'
CELERY = """
    import os
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    from celery import Celery
    app = Celery("peer")
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.autodiscover_tasks()
"""


def celery_task_each(beside: Installation, url: str) -> float:
    """Deliveries per second with a task for each, tuned: sessions and connections kept, threads, prefetching."""
    files = {
        "settings.py": SETTINGS.format(apps="", more=TUNED),
        "peer.py": CELERY,
        "shop/__init__.py": "",
        "shop/models.py": """
            from django.db import models
            class Delivery(models.Model):
                body = models.TextField()
                status = models.CharField(max_length=10, default="pending")
                class Meta: app_label = "shop"
            class Attempt(models.Model):
                delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE)
                status_code = models.IntegerField()
                class Meta: app_label = "shop"
        """,
        "shop/tasks.py": """
            import hashlib, hmac, os, threading, requests
            from celery import shared_task
            from shop.models import Attempt, Delivery
            local = threading.local()
            @shared_task
            def deliver(id):
                if not hasattr(local, "session"):
                    local.session = requests.Session()
                delivery = Delivery.objects.get(id=id)
                body = delivery.body.encode()
                signature = hmac.new(b"secret", body, hashlib.sha256).hexdigest()
                answer = local.session.post(os.environ["PEER_URL"], body, timeout=3, headers={
                    "Content-Type": "application/json", "X-Service-Signature": "sha256=" + signature})
                Attempt.objects.create(delivery=delivery, status_code=answer.status_code)
                Delivery.objects.filter(id=id).update(status="delivered")
        """,
        "fill.py": """
            import django, sys
            import peer
            django.setup()
            from django.core.management import call_command
            call_command("migrate", run_syncdb=True, verbosity=0)
            from shop.models import Delivery
            from shop.tasks import deliver
            rows = Delivery.objects.bulk_create(Delivery(body="x" * 250) for _ in range(int(sys.argv[1])))
            with peer.app.producer_pool.acquire(block=True) as producer:
                for row in rows:
                    deliver.apply_async((row.id,), producer=producer)
        """,
    }
    # Deliveries per second on two cores: one process of 8 threads 289, 4 processes (prefork) 288, 8 processes 272,
    # 3 x 4 threads 259, 2 x 16 threads 240, 2 x 8 threads 233, 2 processes 130.
    left = "SELECT count(*) FROM shop_delivery WHERE status = 'pending'"
    return _measure(beside, url, sys.executable, files, left, EACH, "--pool", "threads", "-c", "8")


def django_webhook(beside: Installation, url: str) -> float:
    """Deliveries per second of the package with its defaults: a saved model, a task, a prefork worker."""
    files = {
        "settings.py": SETTINGS.format(apps='"django_webhook",', more=TOLD),
        "peer.py": CELERY,
        "shop/__init__.py": "",
        "shop/models.py": """
            from django.db import models
            class Order(models.Model):
                text = models.TextField()
                class Meta: app_label = "shop"
        """,
        "fill.py": """
            import os, django, sys
            import peer
            django.setup()
            from django.core.management import call_command
            call_command("migrate", run_syncdb=True, verbosity=0)
            from django_webhook.models import Webhook, WebhookTopic
            topic, _ = WebhookTopic.objects.get_or_create(name="shop.Order/create")
            webhook = Webhook.objects.create(url=os.environ["PEER_URL"])
            webhook.topics.set([topic])
            from shop.models import Order
            for _ in range(int(sys.argv[1])):
                Order.objects.create(text="x" * 250)
        """,
    }
    done = "SELECT count(*) FROM django_webhook_webhookevent WHERE status = 'SUCCESS'"
    with python_with(DJANGO_WEBHOOK, "celery[redis]", "psycopg[binary]", "dj-database-url") as python:
        return _measure(beside, url, python, files, f"SELECT {PACKAGED} - ({done})", PACKAGED)


@contextmanager
def python_with(*packages: str) -> Iterator[str]:
    """The path of a Python with these packages, in an environment of its own."""
    with tempfile.TemporaryDirectory(prefix="codservice-peer-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin/python")
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        yield python


def _measure(
    beside: Installation, url: str, python: str, files: dict[str, str], left: str, count: int, *options: str
) -> float:
    """Queue `count` deliveries, start a worker and return its deliveries per second (`_rate`). `left` is SQL."""
    database = beside.another_database(f"peer{time.monotonic_ns()}")
    broker = data_folder.redis_url(beside.data_dir)
    variables = beside.environ | {
        "PEER_DATABASE_URL": database,
        "PEER_BROKER_URL": broker.replace("unix://", "redis+socket://").replace("?db=0", "?virtual_host=9"),
        "PEER_URL": url,
    }
    variables.pop("DJANGO_SETTINGS_MODULE", None)
    with tempfile.TemporaryDirectory(prefix="codservice-peer-") as folder:
        for path, text in files.items():
            (Path(folder) / path).parent.mkdir(exist_ok=True)
            (Path(folder) / path).write_text(textwrap.dedent(text))

        subprocess.run([python, "fill.py", str(count)], cwd=folder, env=variables, check=True)
        worker = subprocess.Popen(
            [python, "-m", "celery", "-q", "-A", "peer", "worker", "--loglevel", "ERROR", *options],
            cwd=folder,
            env=variables | {"C_FORCE_ROOT": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return _rate(lambda: int(psql(database, left)), count)
        finally:
            worker.terminate()
            worker.wait()


def _rate(left: Callable[[], int], count: int) -> float:
    """The rate after the first tenth, so that the worker's start does not count."""
    first: tuple[float, int] | None = None
    while True:
        remaining = left()
        now = time.perf_counter()
        if first is None and remaining <= count * 0.9:
            first = now, remaining
        if remaining == 0 and first is not None:
            return first[1] / (now - first[0])
        time.sleep(0.1)

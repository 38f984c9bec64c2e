"""Beat: `python -m codservice.run.beat`. It sends tasks by name at the times in `CELERY_BEAT_SCHEDULE`.

It needs only the settings, without Django's apps and Celery's command line (whose interactive shell takes ten
megabytes). `celery -A codservice beat` does the same in twice the memory.
"""

import logging
import os
import sys
import time
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from celery import Celery, beat
from celery.schedules import schedule
from celery.signals import setup_logging
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from codservice import logs
from codservice.errors import CannotStart
from codservice.run import pulse
from codservice.run.kernel import return_memory_soon

logger = logging.getLogger(__name__)

QUIET_SECONDS = 60.0  # between two log lines that Redis accepts no messages


class Scheduler(beat.Scheduler):
    """Sends every task at the start and then at its interval, by a monotonic clock.

    It does not store what it sent last: sending a task once more does no harm, and a file could be damaged. The setting
    `CELERY_BEAT_SCHEDULER` names this class.
    """

    def setup_schedule(self) -> None:
        self._quiet_until = 0.0
        for name, entry in self.app.conf.beat_schedule.items():
            every = schedule(entry["schedule"], nowfun=_now, app=self.app)
            self.add(**entry | {"name": name, "schedule": every, "last_run_at": _now() - every.run_every})

    def tick(self, *args: Any, **kwargs: Any) -> float:
        pulse.note()
        return float(super().tick(*args, **kwargs))

    @cached_property
    def producer(self) -> Any:
        """A producer that connects when it sends. Celery's own would wait for Redis here and block the loop."""
        return self.Producer(self.connection, auto_declare=False)

    def apply_entry(self, entry: beat.ScheduleEntry, producer: Any = None) -> None:
        try:
            self._need_room()
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # kombu raises what its transports raise
            # The next message connects anew: if Redis' address has moved, a replica may have answered that had it.
            self.connection.release()
            del self.connection
            self.__dict__.pop("producer", None)
            if time.monotonic() >= self._quiet_until:
                self._quiet_until = time.monotonic() + QUIET_SECONDS
                logger.warning("beat cannot send messages to Redis: %s", error)

    def _need_room(self) -> None:
        """Raise an error if many messages wait already."""
        with self.connection.default_channel.conn_or_acquire() as client:
            waiting = client.llen(settings.CELERY_TASK_DEFAULT_QUEUE)
        if waiting >= settings.MOST_MESSAGES:
            raise BufferError(f"{waiting} wait there. Does a worker run?")


def _now() -> datetime:
    """Return a time of which only differences are meaningful."""
    return datetime.fromtimestamp(time.monotonic(), UTC)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    # Not the current application, since the process may also have the real one.
    app = Celery("codservice", fixups=[], set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    setup_logging.connect(logs.configure)
    return_memory_soon()
    app.Beat(quiet=True).run()


if __name__ == "__main__":
    try:
        pulse.need_file()
        main()
    except (CannotStart, ImproperlyConfigured) as error:
        sys.exit(f"codservice: {error}")

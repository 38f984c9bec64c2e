"""Beat: `python -m codservice.run.beat`. It sends tasks by name at the times in `CELERY_BEAT_SCHEDULE`.

For that it needs the settings, neither Django's apps nor Celery's command line (whose interactive shell weighs ten
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
from django.core.exceptions import ImproperlyConfigured

from codservice import logs
from codservice.errors import CannotStart
from codservice.run import pulse
from codservice.run.kernel import return_memory_soon

logger = logging.getLogger(__name__)

QUIET_SECONDS = 60.0  # between two lines that say that Redis takes nothing


class Scheduler(beat.Scheduler):
    """Sends all of it at its start and then every so many seconds, by a clock that nobody sets.

    What was sent last is remembered nowhere: a task that is asked for once more does no harm, and a file could be
    damaged. Named by `CELERY_BEAT_SCHEDULER`.
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
        """Connects when it sends. Celery's own would wait for Redis here, and nothing would come round."""
        return self.Producer(self.connection, auto_declare=False)

    def apply_entry(self, entry: beat.ScheduleEntry, producer: Any = None) -> None:
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # kombu raises what its transports raise
            if time.monotonic() >= self._quiet_until:
                self._quiet_until = time.monotonic() + QUIET_SECONDS
                logger.warning("Redis takes no messages of beat: %s", error)


def _now() -> datetime:
    """Only differences of it mean anything."""
    return datetime.fromtimestamp(time.monotonic(), UTC)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    # Never the current application of a process that also has the real one.
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

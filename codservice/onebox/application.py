"""Our own part of the service: `python -m codservice.onebox.application`.

It loads Django once, while database and broker start, and runs migrations, web, worker and beat in forks of itself.
Four processes that each load Django take nearly twice the memory and twice as long to start. Each can also be run
alone, as in production: `python -m codservice.run.web`, `...worker`, `...beat`.
"""

import gc
import os
import sys
from functools import partial

from codservice.errors import CannotStart
from codservice.onebox.process import Process
from codservice.onebox.service import BEAT_STOP, WEB_STOP, WORKER_STOP
from codservice.onebox.supervisor import SAID_WHY, Supervisor, say
from codservice.run import beat, prepare, pulse, worker
from codservice.run.kernel import name_process, return_memory
from codservice.run.web import Web, preload, serve

STOP_ORDER = ("prepare", "web", "worker", "beat")


def processes(web: Web) -> list[Process]:
    return [
        Process("prepare", target=prepare.main, once=True),
        Process("web", target=partial(serve, web), is_ready=web.answers, stop=WEB_STOP),
        Process("worker", target=worker.main, stop=WORKER_STOP),
        Process("beat", target=beat.main, stop=BEAT_STOP),
    ]


def gather_static_files() -> None:
    """Collect static files in production, before web processes need them; development serves them where they are."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    if not settings.DEVELOPMENT:
        django.setup()
        try:
            call_command("collectstatic", interactive=False, verbosity=0)
        except OSError as error:
            why = error.strerror or str(error).removesuffix(".")  # Django's own errors have only a text
            raise CannotStart(f"Static files cannot be written to {settings.STATIC_ROOT}: {why}.") from error


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    from django.core.exceptions import ImproperlyConfigured

    name_process("application")
    try:
        web = Web.from_environ()
        pulse.need_file()
        gather_static_files()
        preload()
        worker.preload()
        return_memory()
        gc.freeze()
        sys.stdin.read()  # ends when database and broker are ready
        return Supervisor(processes(web), stop_order=STOP_ORDER).run()
    except (CannotStart, ImproperlyConfigured) as error:
        say(str(error))
        return SAID_WHY


if __name__ == "__main__":
    sys.exit(main())

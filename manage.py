#!/usr/bin/env python
"""Django's command line. `python manage.py help` lists the commands; docs/operators.md explains them."""

import gc
import io
import os
import signal
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)  # else each command would leave a file of counters there
    if sys.stderr is None:  # the shell's 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (for as long as this lives)
    # What ar_DZ and fr_FR stand for by themselves has no “ and no …; names of files may be in any encoding.
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):  # not the shell's >&-
            stream.reconfigure(encoding="utf-8", errors=errors)
    gc.disable()  # of what is loaded now nothing becomes garbage: looking for it takes a sixth of a start
    import django
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        django.setup()
        gc.freeze()
        gc.enable()
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # A wrong setting is the operator's to mend: one sentence, no traceback.
        sys.exit(str(error))
    except EOFError:  # of what asks for a password where nobody can answer, as in `kubectl exec` without --tty
        sys.exit("There is nobody to ask. Run this command in a terminal (`kubectl exec --stdin --tty`, `ssh -t`).")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # ends by the signal, as shells expect, but without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)

"""The service as `make run` starts it, except that our processes reach PostgreSQL and Valkey through doors, whose ports
are in the environment: `python -m tests.chaos.service`.
"""

import os
import sys
from dataclasses import replace

from codservice.data_folder import Layout
from codservice.onebox.__main__ import main
from codservice.onebox.process import Process
from codservice.onebox.service import processes
from codservice.run.web import Web

DATABASE, BROKER = "CHAOS_DATABASE_PORT", "CHAOS_BROKER_PORT"


def through_doors(layout: Layout, web: Web) -> list[Process]:
    *servers, application = processes(layout, web)
    environment = {
        **application.environment,
        "DATABASE_URL": f"postgresql://codservice@127.0.0.1:{os.environ[DATABASE]}/codservice?sslmode=disable",
        "REDIS_URL": f"redis://127.0.0.1:{os.environ[BROKER]}/0",
    }
    return [*servers, replace(application, environment=environment)]


if __name__ == "__main__":
    sys.exit(main(through_doors))

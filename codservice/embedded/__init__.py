"""PostgreSQL and Valkey for a machine that has neither: where they live and how to reach them.

The functions here are pure functions of the data folder: settings call them, no process is started and nothing
slow is imported. `codservice.run` starts the servers that these addresses lead to.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from .layout import CannotStart, Layout
from .secret_file import secrets

__all__ = ["CannotStart", "Layout", "data_dir", "database_url", "redis_url", "secrets"]


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The absolute data folder: `DATA_DIR`, else the user's own folder for application data."""
    if chosen := environ.get("DATA_DIR"):
        return Path(chosen).absolute()
    from platformdirs import user_data_path

    return user_data_path("codservice")


def database_url(data_dir: Path) -> str:
    """URL of the embedded PostgreSQL over `data_dir`, for dj-database-url and libpq alike."""
    # The port only names the socket file; written out so that PGPORT in the environment cannot change it.
    return f"postgresql://codservice@{quote(str(Layout(data_dir).postgres_socket.parent), safe='')}:5432/codservice"


def redis_url(data_dir: Path) -> str:
    """URL of the embedded Valkey over `data_dir`, for redis-py."""
    return f"unix://{quote(str(Layout(data_dir).valkey_socket))}?db=0"

"""Settings for our processes in tests: as in production, except for how long Redis may take.

On a busy machine it may need longer than requests wait for it, which would let everybody pass, wake nobody and be
logged. Processes that collect or serve static files have a STATIC_ROOT of the test's own: in the checkout's folder,
collecting them would remove what a process of another worker is about to serve.
"""

import os

from codservice.settings import *  # noqa: F403
from codservice.settings import CACHES, REDIS_CLIENT, STATIC_ROOT

from .background import PATIENCE

REDIS_CLIENT |= dict.fromkeys(("socket_timeout", "socket_connect_timeout"), PATIENCE)
CACHES["default"]["OPTIONS"] |= REDIS_CLIENT
STATIC_ROOT = os.environ.get("STATIC_ROOT", STATIC_ROOT)

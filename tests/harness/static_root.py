"""Settings for processes that collect or serve static files as in production, in a STATIC_ROOT of the test's own.

In the checkout's folder, collecting them would remove what a process of another worker is about to serve.
"""

import os

from codservice.settings import *  # noqa: F403

STATIC_ROOT = os.environ["STATIC_ROOT"]

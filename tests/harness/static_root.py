"""Settings of processes that gather or serve static files as in production, in STATIC_ROOT: a folder of the test's own.

In the checkout others gather them meanwhile, which takes away what a process of another worker is about to serve.
"""

import os

from codservice.settings import *  # noqa: F403

STATIC_ROOT = os.environ["STATIC_ROOT"]

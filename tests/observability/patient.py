"""A worker whose attempts may take as long as tests wait, so that a hanging one is still under way for a test."""

import runpy

from tests.harness.background import PATIENCE
from webhooks import transfer

transfer.DEADLINE_MS = int(PATIENCE * 1000)
runpy.run_module("codservice.run.worker", run_name="__main__")

"""A worker whose attempts may take as long as a test has patience: what hangs is still under way when it is asked."""

import runpy

from tests.harness.background import PATIENCE
from webhooks import transfer

transfer.DEADLINE = int(PATIENCE * 1000)
runpy.run_module("codservice.run.worker", run_name="__main__")

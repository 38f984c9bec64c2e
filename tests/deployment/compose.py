"""The content of compose.yaml."""

from typing import Any

import yaml

from tests.harness.processes import CHECKOUT

COMPOSE: dict[str, Any] = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())

"""The world that the tests of all pages walk through."""

from typing import Any

import pytest

from tests.harness.world import World, make_world


@pytest.fixture
def world(db: None, settings: Any) -> World:
    settings.PAGE_RATE_LIMIT = 1_000_000
    return make_world()

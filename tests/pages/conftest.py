"""The world for the tests of all pages."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from agents.desk import claims
from agents.models import Claim
from tests.harness.database import one
from tests.harness.world import World, make_world


@pytest.fixture(scope="module")
def world_of_file(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """A world that is made once for each file. A test's transaction is inside this one, so its changes are undone.

    A file with tests that commit needs a `world` of its own.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        one("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")  # tests may stand still at midnight
        world = make_world()
        with django_db_blocker.block():
            yield world
        transaction.set_rollback(True)


@pytest.fixture
def world(world_of_file: World, db: None, settings: Any) -> World:
    settings.PAGE_RATE_LIMIT = 1_000_000
    Claim.objects.update(expires_at=timezone.now() + claims.LEASE)  # earlier tests may have taken longer than that
    return deepcopy(world_of_file)

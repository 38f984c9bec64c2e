"""A worker is killed over a file: another goes on after its last batch, and nothing is imported twice."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from codservice.accounts.models import Account
from codservice.uploads import processing
from codservice.uploads.models import Block, RefusedRow, Upload
from orders.models import Order, OrderItem, StatusChange
from tests.factories import make_order
from tests.harness.background import held_up
from tests.harness.client import browser_of
from tests.harness.database import end_sessions
from tests.harness.manage import kill_once
from tests.uploads.files import chosen, csv_of, row, send
from webhooks.models import Event

ROWS = 6000
WORKER = "import django; django.setup(); from codservice.uploads import processing; processing.go_on()"


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_killed_in_the_middle_another_worker_goes_on_where_it_was(alice: Account) -> None:
    browser = browser_of(alice.holder)
    rows = (row("" if number % 2 else f"N{number}", phone="12" if number % 10 == 3 else "0550123456")
            for number in range(ROWS))  # fmt: skip
    upload = send(browser, csv_of(rows))
    browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))

    with held_up(lambda: make_order(alice, external_id=f"N{ROWS - 1}")):  # still running when it is killed
        for _ in range(3):
            before = Upload.objects.get().position
            kill_once(Upload.objects.exclude(position=before).exists, "-c", WORKER)
            Upload.objects.update(claimed_until=Now() - timedelta(seconds=1))  # its claim has run out
    end_sessions()  # what it had asked PostgreSQL to do has ended
    upload.refresh_from_db()
    assert (upload.status, Order.objects.count()) == ("running", upload.counts["imported"])

    processing.go_on()

    upload.refresh_from_db()
    refused = ROWS // 10
    assert (upload.status, upload.counts) == ("done", {"imported": ROWS - refused, "refused": refused})
    assert (upload.rows_done, Block.objects.count(), RefusedRow.objects.count()) == (ROWS, 0, refused)
    for table in (Order, OrderItem, StatusChange, Event):
        assert table.objects.count() == ROWS - refused

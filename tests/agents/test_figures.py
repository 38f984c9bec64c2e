"""The figures: small examples counted by hand, the days that they belong to, and the file."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from statistics import median
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation
from django.utils.html import escape
from django.utils.translation import gettext

from agents.supervision import medians, performance, summing
from agents.supervision.figures import COLUMNS, DIVISIONS
from codservice import charts, days
from codservice.accounts.models import Account, User
from codservice.days import ALGIERS
from orders import daily
from orders.models import CallNote, Order, StatusChange
from tests import factories
from tests.harness.client import browser_of
from tests.harness.plans import copy, explain, rows_read
from tests.harness.sheets import read_csv, read_records

MONDAY = date(2026, 3, 2)
PAGE = "/console/figures/"
LIST = "/console/orders/order/"


def at(hour: int, minute: int = 0, day: int = 0) -> datetime:
    return datetime(2026, 3, 2, tzinfo=ALGIERS) + timedelta(days=day, hours=hour, minutes=minute)


@pytest.fixture
def order_at(alice: Account) -> Callable[..., Order]:
    def make(imported: datetime, **changes: Any) -> Order:
        order = factories.make_order(changes.pop("account", alice), **changes)
        Order.objects.filter(id=order.id).update(created_at=imported)
        StatusChange.objects.filter(order=order).update(at=imported)
        return order

    return make


def call(order: Order, agent: User, when: datetime, outcome: str, callback_at: datetime | None = None) -> None:
    CallNote.objects.create(
        account_id=order.account_id, order=order, outcome=outcome, agent=agent, agent_name=agent.display_name,
        created_at=when, callback_at=callback_at,
    )  # fmt: skip


def change(order: Order, user: User | None, when: datetime, to: str, came: str = "pending_confirmation") -> None:
    StatusChange.objects.create(
        account_id=order.account_id, order=order, from_status=came, to_status=to, at=when, actor="somebody", user=user
    )


def monday() -> summing.Figures:
    return performance.read(MONDAY, MONDAY, "day").total


def shown(row: summing.Figures, *names: str) -> tuple[float | None, ...]:
    """What the page shows of this row under these names."""
    return tuple(column.value(row) for name in names for column in COLUMNS if column.name == name)


def test_a_day_counted_by_hand(order_at: Any, agent: User, colleague: User) -> None:
    first, second, third = order_at(at(8)), order_at(at(9)), order_at(at(9, 30))
    call(first, agent, at(8, 20), "no_answer")  # the first call after 20 minutes
    call(first, agent, at(11), "answered")
    change(first, agent, at(11), "confirmed")  # decided after 180
    call(second, colleague, at(10), "answered")  # 60
    change(second, colleague, at(10), "canceled")  # 60
    call(third, colleague, at(10, 10), "wrong_number")  # 40
    call(third, colleague, at(10, 11), "note")  # not a call
    call(third, colleague, at(10, 12), "skipped")  # nor is this
    total = monday()
    assert (total.calls, total.reached, total.confirmed, total.canceled) == (4, 2, 1, 1)
    assert shown(total, "contact_rate", "confirmation_rate", "calls_per_decision") == (0.5, 0.5, 2.0)
    assert total.first_call == timedelta(minutes=40)  # the median of 20, 40 and 60
    assert total.decision == timedelta(minutes=120)  # halfway between 60 and 180
    assert shown(total, "kept_rate", "return_rate") == (None, None)


@pytest.mark.parametrize("most", [1, 59, 3000, 65_536, 2**31 - 1])
def test_the_middle_is_the_median(most: int) -> None:
    chance = Random(most)
    assert medians.median(b"") is None
    for count in (1, 2, 3, 4, 50, 51, 1000):
        for waits in ([chance.randint(0, most) for _ in range(count)], [most] * count, [most] + [0] * (count - 1)):
            middle = medians.median(b"".join(wait.to_bytes(4, "big") for wait in waits))
            assert middle == timedelta(minutes=median(waits)), waits


def test_a_merchants_own_cancellations_are_no_decisions(order_at: Any, alice: Account) -> None:
    by_key, by_holder = order_at(at(8)), order_at(at(8))
    change(by_key, None, at(9), "canceled")
    change(by_holder, alice.holder, at(9), "canceled")
    assert monday().decisions == 0
    assert shown(monday(), "confirmation_rate") == (None,)


def test_what_is_undone_after_the_confirmation_is_no_second_decision(order_at: Any, supervisor: User) -> None:
    order = order_at(at(8))
    change(order, supervisor, at(9), "confirmed")
    change(order, supervisor, at(10), "canceled", came="confirmed")
    assert (monday().confirmed, monday().canceled) == (1, 0)


def test_only_the_first_call_of_all_counts_as_first(order_at: Any, agent: User) -> None:
    order = order_at(at(8, day=-1))
    call(order, agent, at(9, day=-1), "busy")
    call(order, agent, at(9), "answered")
    assert monday().first_call is None
    fresh = order_at(at(8, day=-1))
    call(fresh, agent, at(9), "answered")
    assert monday().first_call == timedelta(hours=25)


@pytest.mark.parametrize(
    ("called", "kept"), [(at(14, 45), 1), (at(15), 1), (at(15, 15), 1), (at(15, 16), 0), (None, 0)]
)
def test_a_promise_is_kept_within_15_minutes(called: datetime | None, kept: int, order_at: Any, agent: User) -> None:
    order = order_at(at(8))
    call(order, agent, at(9), "callback", callback_at=at(15))
    if called:
        call(order, agent, called, "no_answer")
    assert (monday().promises, monday().kept) == (1, kept)


def test_the_call_that_makes_a_promise_does_not_keep_it(order_at: Any, agent: User) -> None:
    call(order_at(at(8)), agent, at(9), "callback", callback_at=at(9, 10))
    assert (monday().promises, monday().kept) == (1, 0)


def test_a_promise_that_was_overtaken_is_none(order_at: Any, agent: User, supervisor: User) -> None:
    called_before, decided = order_at(at(8)), order_at(at(8))
    call(called_before, agent, at(9), "callback", callback_at=at(15))
    call(called_before, agent, at(12), "no_answer")
    call(decided, agent, at(9), "callback", callback_at=at(15))
    change(decided, None, at(14), "canceled")
    assert monday().promises == 0


@pytest.mark.parametrize("decided", [at(14, 44), at(14, 50), at(15, 2)])
def test_a_promise_whose_order_was_decided_before_it_was_late_is_none(
    decided: datetime, order_at: Any, agent: User
) -> None:
    """By the merchant; or by the agent in the promised call itself, which some reasons note as no call."""
    by_merchant, during_call = order_at(at(8)), order_at(at(8))
    for order in by_merchant, during_call:
        call(order, agent, at(9), "callback", callback_at=at(15))
    change(by_merchant, None, decided, "canceled")
    call(during_call, agent, decided, "note")
    change(during_call, agent, decided, "canceled")
    assert monday().promises == 0


def test_a_promise_was_broken_though_its_order_was_decided_later(order_at: Any, agent: User) -> None:
    order = order_at(at(8))
    call(order, agent, at(9), "callback", callback_at=at(15))
    change(order, None, at(15, 15), "canceled")
    assert (monday().promises, monday().kept) == (1, 0)


@pytest.mark.parametrize(("decided", "kept"), [(at(14, 44), 0), (at(14, 50), 1), (at(14, 55), 1), (at(17), 1)])
def test_a_promise_is_kept_though_the_order_was_decided_meanwhile(
    decided: datetime, kept: int, order_at: Any, agent: User
) -> None:
    order = order_at(at(8))
    call(order, agent, at(9), "callback", callback_at=at(15))
    call(order, agent, at(14, 55), "answered")
    change(order, agent, decided, "canceled")
    assert (monday().promises, monday().kept) == (kept, kept)


@pytest.mark.parametrize("callback_at", [at(10, 10), at(15)])
def test_a_promise_about_a_decided_order_is_none(callback_at: datetime, order_at: Any, agent: User) -> None:
    order = order_at(at(8))
    change(order, agent, at(9, 58), "confirmed")
    call(order, agent, at(10), "callback", callback_at=callback_at)
    assert monday().promises == 0


def test_a_promise_counts_once_its_time_is_over(order_at: Any, agent: User) -> None:
    now = datetime.now(ALGIERS)
    for ago, promises in (timedelta(0), 0), (timedelta(minutes=30), 1):
        call(order_at(now - timedelta(hours=2)), agent, now - timedelta(hours=1), "callback", callback_at=now - ago)
        assert performance.read((now - timedelta(days=1)).date(), now.date(), "day").total.promises == promises


def test_returns_belong_to_who_confirmed(order_at: Any, agent: User, colleague: User, supervisor: User) -> None:
    for number in range(4):
        order = order_at(at(8, day=-9))
        change(order, agent if number else colleague, at(9, day=-9), "confirmed")
        change(order, supervisor, at(9, day=-8), "shipped", came="confirmed")
        change(order, supervisor, at(9), "returned" if number == 1 else "delivered", came="shipped")
    summary = performance.read(MONDAY, MONDAY, "agent")
    assert (summary.total.delivered, summary.total.returned, *shown(summary.total, "return_rate")) == (3, 1, 0.25)
    by = {row.key: shown(row, "return_rate") for row in summary.rows}
    assert by == {str(agent.id): (pytest.approx(1 / 3),), str(colleague.id): (0.0,)}


def test_days_are_algerias(order_at: Any, agent: User) -> None:
    """An hour before midnight in UTC, it is already Tuesday in Algiers."""
    order = order_at(at(8))
    call(order, agent, at(23, 59), "answered")
    call(order, agent, at(24, 1), "answered")
    rows = performance.read(MONDAY, MONDAY + timedelta(days=1), "day").rows
    assert [(row.key, row.calls) for row in rows] == [("2026-03-02", 1), ("2026-03-03", 1)]


def test_every_division_adds_up(order_at: Any, agent: User, colleague: User, charlie: Account) -> None:
    for number, (person, code) in enumerate([(agent, "16"), (agent, "31"), (colleague, "31")]):
        order = order_at(at(8), customer_wilaya=code, **({"account": charlie} if number == 2 else {}))
        call(order, person, at(9), "answered")
        change(order, person, at(9), "confirmed")
    found = {by: {row.key: (row.calls, row.confirmed) for row in performance.read(MONDAY, MONDAY, by).rows}
             for by in DIVISIONS}  # fmt: skip
    assert found["day"] == {"2026-03-02": (3, 3)}
    assert found["agent"] == {str(agent.id): (2, 2), str(colleague.id): (1, 1)}
    assert sorted(found["merchant"].values()) == [(1, 1), (2, 2)]
    assert found["wilaya"] == {"31": (2, 2), "16": (1, 1)}


@pytest.mark.parametrize("is_summed_up", [False, True])
def test_what_is_behind_the_first_names_is_one_row_at_the_end(
    is_summed_up: bool, order_at: Any, agent: User, supervisor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily, "MOST_KEYS", 2)
    product = factories.ProductFactory(name="Robe")
    for count, name in enumerate(("Sac", "Bague", "Voile", "Foulard")):
        lines = [
            factories.order_line(product_name=name, quantity=1, unit_price=5),
            factories.order_line(product_id=product.id, quantity=1),
        ]
        for _ in range(count + 1):
            order = order_at(at(8), account=product.account, items=lines, source=name)
            call(order, agent, at(9, count), "answered")
            change(order, agent, at(9, count), "canceled")
            StatusChange.objects.filter(order=order, to_status="canceled").update(reason=name)
    while is_summed_up and summing.sum_up():
        pass
    browser, query = browser_of(supervisor), {"first": "2026-03-02", "last": "2026-03-02"}

    def rows(by: str) -> list[tuple[str, str]]:
        found = read_records(browser.get(f"{PAGE}csv/", query | {"by": by}).getvalue())
        return [(row["Calls"], row["To the first call (minutes)"], row[f"By {by}"]) for row in found][1:]

    shop = product.account.name
    assert rows("source") == [("4", "63.0", "Foulard"), ("3", "62.0", "Voile"), ("3", "61.0", "All others")]
    assert rows("product") == [
        ("10", "62.0", f"Robe · {shop}"), ("4", "63.0", "Foulard"), ("3", "62.0", "Voile"), ("3", "61.0", "All others")
    ]  # fmt: skip
    summary = performance.read(MONDAY, MONDAY, "source")
    assert [(row.key, row.canceled) for row in summary.reasons] == [("Foulard", 4), ("Voile", 3)]
    page = browser.get(PAGE, query | {"by": "source"}).content.decode()
    assert "40.0 %" in page  # of all cancellations
    assert "1 more is in the file." in page


def test_a_line_called_like_a_products_id_is_not_taken_for_it(
    order_at: Any, alice: Account, charlie: Account, agent: User, supervisor: User
) -> None:
    """Merchants name lines as they like; nobody else's product is looked up by such a name."""
    product = factories.ProductFactory(account=charlie, name="Robe")
    for account, line in (
        (alice, factories.order_line(product_name=str(product.id), quantity=1, unit_price=5)),
        (charlie, factories.order_line(product_id=product.id, quantity=1)),
    ):
        order = order_at(at(8), account=account, items=[line])
        call(order, agent, at(9), "answered")
        change(order, agent, at(9), "confirmed")
    browser = browser_of(supervisor)
    query = {"first": "2026-03-02", "last": "2026-03-02", "by": "product"}
    found = read_records(browser.get(f"{PAGE}csv/", query).getvalue())[1:]
    assert {(row["By product"], row["Calls"]) for row in found} == {
        (str(product.id), "1"), (f"Robe · {charlie.name}", "1")
    }  # fmt: skip
    page = browser.get(PAGE, query).content.decode()
    links = set(re.findall(r"&amp;((?:line|product)=[^&]*)&amp;did=confirmed", page))
    assert links == {f"line={product.id}", f"product={product.id}"}


# --- The page ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", DIVISIONS)
def test_the_page_shows_names_numbers_and_a_chart(by: str, order_at: Any, agent: User, supervisor: User) -> None:
    order = order_at(at(8))
    call(order, agent, at(9), "answered")
    change(order, agent, at(9), "confirmed")
    response = browser_of(supervisor).get(PAGE, {"first": "2026-03-01", "last": "2026-03-07", "by": by})
    text = response.content.decode()
    name = {
        "day": "2 March 2026", "agent": "Samira", "merchant": "Alice&#x27;s shop", "wilaya": "16 Alger",
        "product": "Robe kabyle", "source": "Not specified", "hour": "09:00",
    }[by]  # fmt: skip
    assert name in text
    assert "100.0 %" in text
    assert ('<svg class="chart"' if by == "day" else '<dl class="bars" aria-labelledby="chart-title"') in text
    assert "style=" not in text.split("<main")[1]


@pytest.mark.parametrize("by", ["day", "agent"])
@pytest.mark.parametrize("show", [column.name for column in COLUMNS])
def test_every_figure_can_be_drawn(
    show: str, by: str, week: None, order_at: Any, agent: User, supervisor: User
) -> None:
    promised = order_at(at(8))
    call(promised, agent, at(9), "callback", callback_at=at(15))
    call(promised, agent, at(15), "no_answer")
    query = {"first": "2026-03-02", "last": "2026-03-08", "by": by, "show": show}
    page = browser_of(supervisor).get(PAGE, query).content.decode()
    chart = page.split('id="chart-title"')[1].split("</section>")[0]
    drawn = r'<path class="good" d="M' if by == "day" else r'<rect class="good" x="0.0" width="100.0"'
    assert re.search(drawn, chart)


def test_the_number_of_queries_does_not_depend_on_the_rows(order_at: Any, supervisor: User, charlie: Account) -> None:
    browser, counts = browser_of(supervisor), []
    for number in range(3):
        person = factories.AgentFactory()
        call(order_at(at(8), customer_wilaya=f"1{number}"), person, at(9), "answered")
        with CaptureQueriesContext(connection) as queries:
            browser.get(PAGE, {"first": "2026-03-02", "last": "2026-03-02", "by": "agent"})
        counts.append(len(queries))
    assert len(set(counts)) == 1
    assert counts[0] <= 6


@pytest.mark.parametrize(
    "query",
    [{"first": "2026-03-02", "last": "2026-03-01"}, {"first": "2026-01-01", "last": "2026-04-03"}, {"first": "x"},
     {"by": "password"}, {"show": "x"}, {"first": "0001-01-01", "last": "0001-01-02"}, {"last": "9999-12-31"}],
)  # fmt: skip
@pytest.mark.parametrize("path", [PAGE, f"{PAGE}csv/"])
def test_what_cannot_be_shown_is_said(path: str, query: dict[str, str], supervisor: User) -> None:
    response = browser_of(supervisor).get(path, query, headers={"Accept-Language": "fr"})
    assert response.status_code == 422
    said = re.findall(r'class="errornote"[^>]*>([^<]+)', response.content.decode())
    assert said
    assert not [each for each in said if each.startswith(("By", "Show"))]  # the names of fields, which are English


def test_a_day_that_is_none_is_tied_to_what_is_said_of_it(supervisor: User) -> None:
    page = browser_of(supervisor).get(PAGE, {"last": "x"}).content.decode()
    assert page.count('aria-invalid="true"') == page.count('aria-describedby="id_last_error"') == 1
    assert page.count('id="id_last_error"') == 1


def test_what_was_chosen_stands_beside_the_error(supervisor: User) -> None:
    query = {"first": "2026-03-02", "last": "2026-03-01", "by": "agent", "show": "calls"}
    page = browser_of(supervisor).get(PAGE, query).content.decode()
    form = page.split('<form class="card period"')[1].split("</form>")[0]
    assert all(f'name="{name}"' in form and f'value="{value}"' in form for name, value in query.items())


def test_days_are_written_as_people_in_algeria_do(order_at: Any, agent: User, supervisor: User) -> None:
    call(order_at(at(8)), agent, at(9), "answered")
    browser, query = browser_of(supervisor), {"first": "2026-03-02", "last": "2026-03-02", "by": "day"}
    text = browser.get(PAGE, query, headers={"Accept-Language": "fr"}).content.decode()
    assert "<bdi>2 mars 2026</bdi>" in text
    assert ">02/03<" in text
    assert "01/03–01/03" in text
    rows = b"".join(browser.get(f"{PAGE}csv/", query).streaming_content).decode()
    assert "2026-03-02" in rows


@pytest.mark.parametrize("language", ["ar", "fr", "en"])
def test_a_number_reads_the_same_in_every_language(
    language: str, supervisor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside amounts, which have spaces, 2.414 and 2,414 would read as two and a bit."""
    found = performance.backlog(by_merchant=False)
    found.by_age[0] = (2414, Decimal(3_581_106))
    monkeypatch.setattr(performance, "backlog", lambda **_options: found)
    text = browser_of(supervisor).get(PAGE, headers={"Accept-Language": language}).content.decode()
    assert "2\u202f414 · 3\u202f581\u202f106" in text


def test_the_file_is_safe_in_a_spreadsheet(order_at: Any, supervisor: User) -> None:
    evil = factories.AgentFactory(first_name='=HYPERLINK("http://evil.example")')
    call(order_at(at(8)), evil, at(9), "answered")
    change(order_at(at(8)), evil, at(9, 30), "confirmed")
    query = {"first": "2026-03-02", "last": "2026-03-02", "by": "agent"}
    response = browser_of(supervisor).get(f"{PAGE}csv/", query)
    assert response.headers["Content-Disposition"] == 'attachment; filename="figures-agent-2026-03-02-2026-03-02.csv"'
    rows = read_csv(response.getvalue())
    assert rows[0][:4] == ["By agent", "Calls", "Answered", "Contact rate"]
    assert [row[0] for row in rows[1:]] == ["All", '\'=HYPERLINK("http://evil.example")']
    cells = dict(zip(rows[0], rows[2], strict=True))
    assert (cells["Calls"], cells["Confirmed"], cells["Confirmation rate"]) == ("1", "1", "1.0")
    waits = cells["To the first call (minutes)"], cells["To the decision (minutes)"]
    assert (*waits, cells["Promises kept"]) == ("60.0", "90.0", "")


def test_the_file_has_semicolons_in_french(supervisor: User) -> None:
    browser = browser_of(supervisor)
    browser.cookies["django_language"] = "fr"
    text = browser.get(f"{PAGE}csv/", {"by": "agent"}).getvalue().decode("utf-8-sig")
    assert text.startswith("Par agent;Appels;A répondu;")
    assert "\r\nTout;" in text


@pytest.mark.parametrize("language", ["ar-dz", "fr", "en"])
def test_each_column_of_the_file_has_the_pages_word_and_no_two_the_same(supervisor: User, language: str) -> None:
    browser = browser_of(supervisor)
    browser.cookies["django_language"] = language
    header = browser.get(f"{PAGE}csv/").getvalue().decode("utf-8-sig").splitlines()[0]
    words = header.split("," if language == "en" else ";")
    assert len(set(words)) == len(words) == 21
    assert "_" not in header
    with translation.override(language):
        some = {gettext("Return rate"), gettext("Promises kept"), f"{gettext('Delivered')} ({gettext('DA')})"}
    assert some < set(words)


def test_scales_have_round_numbers() -> None:
    chart = charts.days([charts.Bar(str(value), [value]) for value in (3, 0, 37.5)], " %")
    assert [line.text for line in chart.scale] == ["0 %", "20 %", "40 %"]


def test_a_bar_of_a_rate_says_of_how_many_while_all_have_room(order_at: Any, agent: User, supervisor: User) -> None:
    for kind in ("confirmed", "confirmed", "canceled"):
        change(order_at(at(8)), agent, at(9), kind)
    page = browser_of(supervisor).get(PAGE, {"first": "2026-03-02", "last": "2026-03-02"}).content.decode()
    assert ">2/3</text>" in page
    week, month = (charts.days([charts.Bar("", [50], short="100/200")] * count) for count in (7, 31))
    assert (len(week.shorts), week.are_tight, month.shorts) == (7, True, [])


# --- What stands beside the table, and where it leads --------------------------------------------------------------


@pytest.fixture
def week(order_at: Any, alice: Account, charlie: Account, agent: User, supervisor: User) -> None:
    """Six decisions of two shops, with products, sources and reasons. One order was delivered and one came back."""
    robe = factories.ProductFactory(account=alice, name="<b>Robe</b>")
    for number in range(6):
        line = {"product_id": robe.id} if number % 2 else {"product_name": f"Sac {number % 3}"}
        order = order_at(
            at(8, day=number % 3),
            account=alice if number % 2 else charlie,
            source=[None, "facebook", "-"][number % 3],
            items=[factories.order_line(quantity=1, unit_price=500, **line)],
            total_amount=1000,
        )
        person, when = [agent, supervisor][number % 2], at(9 + number, day=number % 3)
        call(order, person, when, "answered")
        if number == 5:
            StatusChange.objects.create(
                account_id=order.account_id, order=order, from_status="pending_confirmation", to_status="canceled",
                at=when, actor="somebody", user=person, reason="Duplicate: of Monday's",
            )  # fmt: skip
            continue
        change(order, person, when, "confirmed")
        if number < 2:
            change(order, supervisor, at(20, day=number), ["delivered", "returned"][number], came="shipped")


@pytest.mark.parametrize("by", DIVISIONS)
def test_each_count_leads_to_as_many_orders(by: str, week: None, supervisor: User) -> None:
    browser = browser_of(supervisor)
    query = {"first": "2026-03-02", "last": "2026-03-08", "by": by}
    context = browser.get(PAGE, query).context
    rows = performance.read(MONDAY, MONDAY + timedelta(days=6), by).rows
    names = [column.name for column in context["columns"]]
    for row, (_name, _day, cells) in zip(rows, context["table"], strict=True):
        links = dict(zip(names, (cell.link for cell in cells), strict=True))
        for column, count in (
            ("decisions", row.decisions), ("confirmation_rate", row.confirmed), ("return_rate", row.returned)
        ):  # fmt: skip
            assert bool(links[column]) == bool(count)
            if count:
                assert browser.get(links[column]).context["cl"].result_count == count, (by, row.key, column)
    assert [tile for tile in context["tiles"] if tile.link]
    for tile in context["tiles"]:
        if tile.link:
            assert str(browser.get(tile.link).context["cl"].result_count) == tile.count


def test_the_page_says_sums_reasons_and_what_waits(week: None, alice: Account, supervisor: User) -> None:
    browser = browser_of(supervisor)
    factories.make_order(alice, total_amount=700)
    response = browser.get(PAGE, {"first": "2026-03-02", "last": "2026-03-08", "by": "product"})
    text, context = response.content.decode(), response.context
    assert [(tile.count, tile.amount.replace("\u202f", " ")) for tile in context["tiles"]] == [
        ("5", "5 000"), ("1", "1 000"), ("1", "1 000"), ("1", "1 000")
    ]  # fmt: skip
    ((reason, _parts),) = context["reasons"]
    assert (reason.name, reason.parts) == ("Duplicate", [1])
    assert browser.get(reason.link).context["cl"].result_count == 1
    assert "83.3 %" in text
    assert "5 of 6" in text
    assert "&lt;b&gt;Robe&lt;/b&gt;" in text
    assert "<b>Robe" not in text
    waiting = {bar.link: sum(bar.parts) for bar, _parts in context["backlog"]}
    for link, count in waiting.items():
        assert not link or browser.get(link).context["cl"].result_count == count
    assert sum(waiting.values()) == Order.live.filter(status="pending_confirmation").count()
    later = browser.get(PAGE, {"first": "2026-03-09", "last": "2026-03-15"}).context
    assert [tile.before for tile in later["tiles"]] == ["5", "1", "1", "1"]


def test_a_reason_is_one_whichever_space_french_has_before_its_colon(
    order_at: Any, agent: User, supervisor: User
) -> None:
    for reason in ("Trop cher: 300 de trop", "Trop cher : oui", "Trop cher\u00a0: 300", "Trop cher\u202f: non"):
        change(order_at(at(8)), agent, at(9), "canceled")
        StatusChange.objects.filter(to_status="canceled", reason="").update(reason=reason)
    browser = browser_of(supervisor)
    ((bar, _parts),) = browser.get(PAGE, {"first": "2026-03-02", "last": "2026-03-02"}).context["reasons"]
    assert (bar.name, bar.parts) == ("Trop cher", [4])
    assert browser.get(bar.link).context["cl"].result_count == 4


@pytest.mark.parametrize("by", ["agent", "merchant"])
def test_two_of_one_name_are_told_apart(
    by: str, order_at: Any, alice: Account, charlie: Account, agent: User, colleague: User, supervisor: User
) -> None:
    User.objects.filter(id=colleague.id).update(first_name=agent.first_name, last_name=agent.last_name)
    Account.objects.filter(id=charlie.id).update(name=alice.name)
    for account, person in ((alice, agent), (charlie, colleague)):
        call(order_at(at(8), account=account), person, at(9), "answered")
    call(order_at(at(8), account=factories.AccountFactory(name="Third")), supervisor, at(9), "answered")
    wanted = {
        "agent": [f"{agent.display_name} ({person.username})" for person in (agent, colleague)]
        + [supervisor.display_name],
        "merchant": [f"{alice.name} ({account.holder.email})" for account in (alice, charlie)] + ["Third"],
    }[by]
    browser, query = browser_of(supervisor), {"first": "2026-03-02", "last": "2026-03-02", "by": by}
    assert sorted(name for name, _day, _cells in browser.get(PAGE, query).context["table"]) == sorted(wanted)
    rows = read_records(browser.get(f"{PAGE}csv/", query).getvalue())
    assert sorted(row[f"By {by}"] for row in rows) == sorted(["All", *wanted])


def test_the_orders_of_a_reason_are_found_whatever_space_ends_it(order_at: Any, agent: User, supervisor: User) -> None:
    change(order_at(at(8)), agent, at(9), "canceled")
    StatusChange.objects.filter(to_status="canceled").update(reason="Trop cher\u2009: 4900 DA")
    browser = browser_of(supervisor)
    context = browser.get(PAGE, {"first": "2026-03-02", "last": "2026-03-02", "by": "day"}).context
    ((reason, _parts),) = context["reasons"]
    assert browser.get(reason.link).context["cl"].result_count == 1


def test_by_merchant_the_page_says_whose_orders_wait(
    order_at: Any, alice: Account, charlie: Account, supervisor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who wait for a day or longer come first, whether or not anything happened to them in the period."""
    charlie.name, now = f"{alice.name} 2", timezone.now()
    charlie.save()
    # Of the same name, but for a capital letter.
    namesake = factories.AccountFactory(name=alice.name.upper())
    for shop, hours in ((alice, 1), (alice, 2), (charlie, 1), (charlie, 25), (charlie, 900), (namesake, 1)):
        order_at(now - timedelta(hours=hours), account=shop)
    browser = browser_of(supervisor)
    context = browser.get(PAGE, {"by": "merchant"}).context
    bars = [bar for bar, _parts in context["waiting"]]
    assert [(bar.name, bar.parts, bar.text) for bar in bars] == [
        (charlie.name, [2], "2 of 3"),
        *(
            (f"{each.name} ({each.holder.email})", [0], text)
            for each, text in ((alice, "0 of 2"), (namesake, "0 of 1"))
        ),
    ]
    assert [browser.get(bar.link).context["cl"].result_count for bar in bars] == [3, 2, 1]
    assert f">{escape(charlie.name)}</div>" in browser.get(bars[0].link).content.decode(), (
        "the list says whose it shows"
    )
    assert [sum(bar.parts) for bar, _parts in context["backlog"]] == [4, 0, 1, 0, 0, 1]
    assert browser.get(PAGE).context["waiting"] == []

    monkeypatch.setattr(charts, "MOST_ROWS", 2)  # without the namesake, from whom the second is still told apart
    fewer = [bar for bar, _parts in browser.get(PAGE, {"by": "merchant"}).context["waiting"]]
    assert [browser.get(bar.link).context["cl"].result_count for bar in fewer] == [3, 2]


def test_the_orders_of_one_merchants_figure_are_found_among_that_merchants_changes(
    alice: Account, charlie: Account, agent: User, supervisor: User
) -> None:
    for account, count in ((alice, 2000), (charlie, 200)):
        order = factories.make_order(account)
        change(order, agent, timezone.now(), "confirmed")
        copy(order, count, days=300)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO orders_statuschange"
                " (account_id, order_id, from_status, to_status, at, actor, user_id, reason)"
                " SELECT account_id, id, 'pending_confirmation', 'confirmed', created_at, '', %s, '' FROM orders_order"
                " WHERE account_id = %s",
                [agent.pk, account.pk],
            )
            cursor.execute("ANALYZE orders_statuschange")
    year = {"did_first": days.today() - timedelta(days=310), "did_last": days.today()}
    with CaptureQueriesContext(connection) as queries:
        page = browser_of(supervisor).get(LIST, {"status": "all", "did": "confirmed", "shop": charlie.pk, **year})
    assert page.context["cl"].result_count == 201
    found = [query["sql"] for query in queries if "orders_statuschange" in query["sql"]]
    assert found
    for sql in found:
        assert rows_read(sql, "orders_statuschange") < 500, explain(sql)


@pytest.mark.parametrize(
    "query",
    [{"did": "confirmed"}, {"did": "x", "did_first": "2026-03-02", "did_last": "2026-03-02"},
     {"did": "canceled", "did_first": "x", "did_last": "2026-03-02"}, {"reason": "\0"}, {"hour": "99"},
     {"did": "confirmed", "did_first": "2026-03-02", "did_last": "2026-03-02", "agent": "x", "product": "\0"}],
)  # fmt: skip
def test_a_list_that_cannot_be_understood_is_empty(query: dict[str, str], order_at: Any, supervisor: User) -> None:
    order_at(at(8))
    response = browser_of(supervisor).get("/console/orders/order/", {"status": "all", **query})
    assert response.status_code == 200
    assert response.context["cl"].result_count == 0
    assert "these filters cannot be read" in response.content.decode()

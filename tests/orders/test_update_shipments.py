"""update_shipments: a courier's file, read the way couriers write it, safe to give again."""

import csv
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from codservice.accounts.models import Account, User
from codservice.files.headings import key
from codservice.files.intake import A_DATE, FAILED, NO_NUMBER
from orders.courier_files import UNDECIDED, WORDS
from orders.models import Order, Status, StatusChange
from tests.factories import make_order, make_orders
from tests.harness.background import held_up
from tests.harness.database import end_sessions
from tests.harness.manage import kill_once, printed
from tests.harness.processes import CHECKOUT
from tests.harness.sheets import write_xlsx
from tests.orders.moves import order_in

HEADER = ("order_id", "external_id", "status", "reason")


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_csv(*rows: tuple[Any, ...], header: tuple[str, ...] = HEADER) -> Path:
        path = tmp_path / "courier.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=";").writerows([header, *rows])
        return path

    return write_csv


def run(path: Path, *options: str) -> tuple[dict[str, Any], int]:
    return printed("update_shipments", path, *options)


def counts(result: dict[str, Any]) -> tuple[int, int, int]:
    return result["moved"], result["already"], result["refused"]


def statuses(*orders: Order) -> list[str]:
    known = dict(Order.objects.values_list("id", "status"))
    return [known[order.id] for order in orders]


def confirmed(account: Account, count: int) -> None:
    """Make many orders at once that a courier's file can move."""
    make_orders(account, ({"external_id": f"N{number}"} for number in range(count)))
    Order.objects.update(status="confirmed")


def test_orders_move_to_where_the_courier_says_they_are(alice: Account, write: Any) -> None:
    first, second, third = (order_in("confirmed", alice) for _ in range(3))
    Order.objects.filter(id=third.id).update(external_id="A-3")
    path = write(
        (first.id, "", "👍🏽 Livré ✅", ""), (second.id, "", "RETOURNEE", "Client absent"), ("", "A-3", "تم الشحن", "")
    )

    result, status = run(path, "--account", alice.holder.email)

    assert (counts(result), status, result["dry_run"]) == ((3, 0, 0), 0, False)
    assert statuses(first, second, third) == ["delivered", "returned", "shipped"]
    change = StatusChange.objects.get(order=second, to_status="returned")
    assert (change.actor, change.reason) == ("update_shipments", "Client absent")


def test_an_account_without_a_name_is_not_every_account(alice: Account, write: Any) -> None:
    """Nor is it the one of a holder who has no address."""
    order = order_in("confirmed", alice)
    User.objects.filter(pk=alice.holder_id).update(email="")
    with pytest.raises(CommandError, match="No account's holder has the address “”"):
        call_command("update_shipments", write((order.id, "", "delivered", "")), "--account", "")
    assert statuses(order) == ["confirmed"]


def test_a_couriers_word_in_any_case_and_accents(alice: Account, write: Any) -> None:
    said = [(status, word) for status, words in WORDS.items() for word in words]
    before = {Status.DELIVERED: "shipped", Status.RETURNED: "shipped", Status.CANCELED: "canceled"}
    orders = [order_in(before.get(status, "confirmed"), alice) for status, _ in said]
    written = [f" {word.upper().replace(' ', '_')} " for _, word in said]

    result, _ = run(write(*((order.id, "", word, "") for order, word in zip(orders, written, strict=True))))

    already = len(WORDS[Status.CONFIRMED]) + len(WORDS[Status.CANCELED])
    assert counts(result) == (len(said) - already, already, 0)
    assert statuses(*orders) == [status for status, _ in said]


def test_people_write_such_words_with_an_article_or_without(alice: Account, write: Any) -> None:
    said = {
        "Récupéré par le fournisseur": "returned", "Retour vers le vendeur": "shipped", "Vers la wilaya": "shipped",
        "Enlevé par livreur": "shipped", "√ Livré": "delivered", "📦✔️ Livré": "delivered", "🚚 En livraison": "shipped",
        "Retour à l'expéditeur": "shipped", "Retourné à l’expéditeur": "returned", "قيد التوصيل": "shipped",
    }  # fmt: skip
    orders = [order_in("confirmed", alice) for _ in said]
    run(write(*((order.id, "", word, "") for order, word in zip(orders, said, strict=True))))
    assert statuses(*orders) == [*said.values()]


def test_the_operators_manual_has_all_words() -> None:
    manual = (CHECKOUT / "docs/operators.md").read_text()
    for words in (*WORDS.values(), UNDECIDED):
        assert f"| {', '.join(words)} |" in manual


def test_no_word_says_two_things() -> None:
    words = [*map(key, (word for words in (*WORDS.values(), UNDECIDED) for word in words))]
    assert [word for word in words if words.count(word) > 1] == []


# The statuses in the documentation of Yalidine's API.
YALIDINE = (
    "Pas encore expédié", "A vérifier", "En préparation", "Pas encore ramassé", "Prêt à expédier", "En passation",
    "Ramassé", "Transfert", "Expédié", "Centre", "En localisation", "Vers Wilaya", "En transit", "Reçu à Wilaya",
    "En attente du client", "Prêt pour livreur", "Sorti en livraison", "En attente", "En alerte", "Tentative échouée",
    "Livré", "Echèc livraison", "Retour vers centre", "Retourné au centre", "Retour transfert", "Retour groupé",
    "Retour à retirer", "Retour non retiré", "Retour vers vendeur", "Retourné au vendeur",
)  # fmt: skip


def test_a_couriers_own_file_is_taken_as_it_is(alice: Account, write: Any) -> None:
    orders = [order_in("confirmed", alice) for _ in YALIDINE]
    for number, order in enumerate(orders):
        Order.objects.filter(id=order.id).update(external_id=f"CMD-{number}")
    header = ("tracking", "order_id", "firstname", "contact_phone", "to_wilaya_name", "last_status", "date_last_status")
    path = write(
        *((f"yal-{n}", f"CMD-{n}", "Amine", "0550123456", "Alger", word, "") for n, word in enumerate(YALIDINE)),
        header=header,
    )

    result, status = run(path, "--account", alice.holder.email)

    assert (counts(result), status) == ((len(YALIDINE) - 7, 7, 0), 0)
    assert statuses(*orders[:6], orders[17]) == ["confirmed"] * 7
    assert statuses(orders[20], orders[29]) == ["delivered", "returned"]
    assert Order.objects.filter(status="shipped").count() == len(YALIDINE) - 7 - 2
    assert counts(run(path, "--account", alice.holder.email)[0]) == (0, len(YALIDINE), 0)


@pytest.mark.parametrize(
    "header",
    [
        ("Référence", "Statut colis", "Motif"),
        ("id_Externe", "Situation", "x"),
        ("رقم الطلب", "حالة الطرد", "السبب"),
        ("رقم الطلبية", "حالة الطلبية", "السبب"),
        ("N° cde", "Statut", "x"),
    ],
)
def test_couriers_headings_are_understood(alice: Account, write: Any, header: tuple[str, ...]) -> None:
    order = order_in("confirmed", alice)
    Order.objects.filter(id=order.id).update(external_id="A-1")

    result, _ = run(write(("A-1", "Livrée [ Encaisser ]", ""), header=header), "--account", alice.holder.email)

    assert (counts(result), statuses(order)) == ((1, 0, 0), ["delivered"])


def test_a_parcel_that_the_courier_does_not_have_yet_moves_nothing(alice: Account, write: Any) -> None:
    orders = [order_in(status, alice) for status in ("confirmed", "shipped", "delivered", "returned")]
    pending, canceled = order_in("pending_confirmation", alice), order_in("canceled", alice)

    result, _ = run(write(*((order.id, "", "En préparation", "") for order in (*orders, pending, canceled))))

    assert counts(result) == (0, 4, 2)
    assert statuses(*orders, pending, canceled) == [
        "confirmed", "shipped", "delivered", "returned", "pending_confirmation", "canceled"
    ]  # fmt: skip
    assert [error["order_id"] for error in result["errors"]] == [str(pending.id), str(canceled.id)]


def test_a_parcel_that_is_cancelled_or_blocked_changes_no_order_and_it_is_said_what_to_do(
    alice: Account, write: Any
) -> None:
    canceled, *orders = (order_in(status, alice) for status in ("canceled", "confirmed", "shipped", "confirmed"))
    words = ("Annulé", "Colis annulé", "SD - Annuler par le Client", "Bloqué")
    before = StatusChange.objects.count()

    result, status = run(
        write(*((order.id, "", word, "") for order, word in zip((canceled, *orders), words, strict=True)))
    )

    assert (counts(result), status) == ((0, 1, 3), 1)
    said = [error["errors"]["status"][0] for error in result["errors"]]
    assert [each.partition(".")[0] for each in said] == [
        *["The courier has canceled it, which does not cancel the order"] * 2, "The courier does not say where it is"
    ]  # fmt: skip
    assert StatusChange.objects.count() == before


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (("", "", "livré", ""), "order_id"),
        (("1234", "", "livré", ""), "order_id"),
        ((uuid4(), "", "livré", ""), "order_id"),
        (("", "A-1", "livré", ""), "external_id"),
        (("ORDER", "", "", ""), "status"),
        (("ORDER", "", "annulé", ""), "status"),
        (("ORDER", "", "Annuler par le client", ""), "status"),
        (("ORDER", "", "bloqué", ""), "status"),
        (("ORDER", "", "confirmed", ""), "status"),
        (("ORDER", "", "livré ?", ""), "status"),
        *((("ORDER", "", word, ""), "status") for word in ("A livré", "à retourné", "De retour")),
        *((("ORDER", "", f"{sign} livré", ""), "status") for sign in ("❌", "🚫", "⚠️", "≠", "❓", "⁇", "📦❌", "⏳")),
        (("ORDER", "", "livré", "x" * 501), "reason"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_by_its_column(
    alice: Account, write: Any, row: tuple[Any, ...], field: str
) -> None:
    order = order_in("confirmed", alice)

    result, status = run(write(tuple(order.id if cell == "ORDER" else cell for cell in row)))

    (error,) = result["errors"]
    assert (error["line"], list(error["errors"]), status) == (2, [field], 1)
    assert statuses(order) == ["confirmed"]


def test_marks_on_a_letter_keep_no_command_busy(alice: Account, write: Any) -> None:
    order, marks = order_in("confirmed", alice), "\u0301" * 30_000 + "\u0316" * 30_000
    path = write((order.id, "", f"livré{marks}", "", ""), header=(*HEADER, f"e{marks}"))
    began = time.thread_time()

    assert counts(run(path)[0]) == (1, 0, 0)

    assert time.thread_time() - began < 3, "seconds of a processor; sorted, the marks take half a minute each"


def test_an_error_of_the_spreadsheet_is_said_to_be_one(alice: Account, write: Any) -> None:
    order = order_in("confirmed", alice)

    result, _ = run(write(("#N/A", "", "livré", ""), (order.id, "", "#N/A", ""), (order.id, "", "livré", "#REF!")))

    said = [list(error["errors"].items()) for error in result["errors"]]
    assert said == [[(column, [FAILED])] for column in ("order_id", "status", "reason")]
    assert statuses(order) == ["confirmed"]
    assert run(write((order.id, "#N/A", "livré", "")))[0]["errors"] == [], "its id says which order it is"


@pytest.mark.parametrize("column", ["order_id", "external_id"])
def test_a_number_that_a_spreadsheet_has_altered_is_said_to_be_one(alice: Account, write: Any, column: str) -> None:
    taken = order_in("confirmed", alice)
    Order.objects.filter(id=taken.id).update(external_id="6,14E+12")  # a shop's own, strange as it is
    numbers = ("6,13E+12", "-6.13E+12", "\u200f6,13E+12", "2026-12-11", "6,14E+12")
    rows = [(number, "livré") for number in numbers]
    result, _ = run(write(*rows, header=(column, "status")), "--account", alice.holder.email)

    assert counts(result) == (1, 0, 4)
    said = [NO_NUMBER, NO_NUMBER, NO_NUMBER, A_DATE]
    assert [each["errors"] for each in result["errors"]] == [{column: [each]} for each in said]


def test_invisible_marks_around_a_number_are_the_spreadsheets_unless_an_order_has_them(
    alice: Account, write: Any
) -> None:
    plain, marked, by_id = (order_in("confirmed", alice) for _ in range(3))
    for order, number in ((plain, "1001"), (marked, "\u200f1002")):  # the API stores what it is sent
        Order.objects.filter(id=order.id).update(external_id=number)
    rows = [(number, "livré") for number in ("\u200f1001", "\u200f1002", f"\ufeff{by_id.id}")]

    result, _ = run(write(*rows, header=("external_id", "status")), "--account", alice.holder.email)

    assert counts(result) == (3, 0, 0)


def test_an_order_that_nobody_confirmed_is_refused_mended_and_fed_back(
    alice: Account, write: Any, tmp_path: Path
) -> None:
    good, pending = order_in("confirmed", alice), order_in("pending_confirmation", alice)
    report = tmp_path / "refused.csv"

    result, status = run(write((good.id, "", "livré", ""), (pending.id, "", "livré", "-")), "--report", str(report))

    assert (counts(result), status, statuses(good, pending)) == ((1, 0, 1), 1, ["delivered", "pending_confirmation"])
    header, line = report.read_text(encoding="utf-8-sig").splitlines()
    assert header == "line;refused;order_id;external_id;status;reason"
    assert "it cannot become delivered" in line

    Order.objects.filter(id=pending.id).update(status="confirmed")
    result, status = run(report)
    assert (counts(result), status, statuses(pending)) == ((1, 0, 0), 0, ["delivered"])


def test_a_file_may_be_given_again(alice: Account, write: Any) -> None:
    order, other = order_in("confirmed", alice), order_in("confirmed", alice)
    path = write((order.id, "", "expédié", ""), (order.id, "", "livré", ""), (other.id, "", "retourné", ""))
    run(path)
    before = list(StatusChange.objects.order_by("id").values())

    result, status = run(path)

    assert (counts(result), status) == ((0, 3, 0), 0)
    assert list(StatusChange.objects.order_by("id").values()) == before


def test_another_accounts_orders_do_not_exist(alice: Account, charlie: Account, write: Any) -> None:
    theirs = order_in("confirmed", charlie)

    result, _ = run(write((theirs.id, "", "livré", "")), "--account", alice.holder.email)

    assert result["errors"][0]["errors"] == {"order_id": ["There is no such order."]}
    assert statuses(theirs) == ["confirmed"]


def test_in_an_account_an_order_id_that_is_none_of_ours_is_the_shops_own_number(
    alice: Account, charlie: Account, write: Any
) -> None:
    mine, theirs = order_in("confirmed", alice), order_in("confirmed", charlie)
    Order.objects.filter(id__in=[mine.id, theirs.id]).update(external_id="7")
    path = write(("7", "", "livré", ""), ("8", "", "livré", ""), ("x" * 65, "", "livré", ""))

    result, _ = run(path, "--account", alice.holder.email)

    assert (counts(result), statuses(mine, theirs)) == ((1, 0, 2), ["delivered", "confirmed"])
    assert [error["errors"] for error in result["errors"]] == [
        {"order_id": ["There is no such order."]},
        {"order_id": ["No order can have it."]},
    ]


@pytest.mark.parametrize("column", ["order_id", "external_id", "Référence"])
def test_ids_and_the_shops_own_numbers_may_be_in_one_column(alice: Account, write: Any, column: str) -> None:
    """Orders that a merchant enters by hand have no number. A shop's numbers may look like our ids."""
    by_hand, numbered, alike = (order_in("confirmed", alice) for _ in range(3))
    numbers = {numbered: "7", alike: str(uuid4())}
    for order, number in numbers.items():
        Order.objects.filter(id=order.id).update(external_id=number)
    rows = [(number, "livré") for number in (by_hand.id, *numbers.values())]

    result, status = run(write(*rows, header=(column, "status")), "--account", alice.holder.email)

    assert (counts(result), status) == ((3, 0, 0), 0)


def test_a_dry_run_says_what_would_happen_and_writes_nothing(alice: Account, write: Any) -> None:
    order = order_in("confirmed", alice)
    changes = StatusChange.objects.count()

    result, status = run(write((order.id, "", "livré", ""), (uuid4(), "", "livré", "")), "--dry-run")

    assert (counts(result), status, result["dry_run"]) == ((1, 0, 1), 1, True)
    assert (statuses(order), StatusChange.objects.count()) == (["confirmed"], changes)


def test_a_batch_costs_as_many_statements_as_an_order(
    alice: Account, write: Any, django_assert_num_queries: Any
) -> None:
    confirmed(alice, 60)
    bad = [(uuid4(), "", "livré", "") for _ in range(20)]
    path = write(*(("", f"N{number}", "livré", "") for number in range(60)), *bad)

    # The account; numbers, lock, write and tell, and two for each savepoint: the batch's, and that of its orders.
    with django_assert_num_queries(1 + 7):
        result, _ = run(path, "--account", alice.holder.email)

    assert counts(result) == (60, 0, 20)


@pytest.mark.process  # the process that reads a spreadsheet
def test_a_spreadsheet_and_a_file_without_a_status(alice: Account, tmp_path: Path, write: Any) -> None:
    order = make_order(alice, external_id="1042")
    Order.objects.update(status="confirmed")
    write_xlsx(tmp_path / "courier.xlsx", [["External ID", "Status"], [1042, "Livré"]])

    assert counts(run(tmp_path / "courier.xlsx", "--account", alice.holder.email)[0]) == (1, 0, 0)
    assert statuses(order) == ["delivered"]
    with pytest.raises(CommandError, match="no column status"):
        call_command("update_shipments", write(("1",), header=("order_id",)))


@pytest.mark.django_db(transaction=True)
def test_killed_in_the_middle_and_run_again(alice: Account, write: Any) -> None:
    count = 1200
    confirmed(alice, count)
    path = write(*(("", f"N{number}", "livré", "") for number in range(count)))
    command = ["manage.py", "update_shipments", str(path), "--account", alice.holder.email]
    delivered = Order.objects.filter(status="delivered")
    last = Order.objects.select_for_update().filter(external_id=f"N{count - 1}")
    with held_up(last.get):  # still running when it is killed
        kill_once(delivered.count, *command)
    end_sessions()  # what it had asked PostgreSQL to do has ended
    before = delivered.count()
    assert 0 < before < count

    result, status = run(path, "--account", alice.holder.email)

    assert (counts(result), status) == ((count - before, before, 0), 0)
    assert delivered.count() == count
    assert StatusChange.objects.filter(to_status="shipped").count() == count
    assert StatusChange.objects.filter(to_status="delivered").count() == count

"""Files to upload, and uploading them in a merchant's browser."""

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from codservice.files import workbooks
from codservice.uploads import arrival, processing
from codservice.uploads.models import Upload

PAGE = "/account/orders/upload"
HEADINGS = ["external_id", "customer_name", "customer_phone", "customer_wilaya", "customer_address", "product_name",
            "quantity", "unit_price"]  # fmt: skip
HEADER = ("N° commande", "Nom du client", "Téléphone", "Wilaya", "Adresse", "Désignation", "Qté", "Prix unitaire")
# The headings of a courier's import file.
ECOTRACK = (
    "reference commande,nom et prenom du destinataire*,telephone*,telephone 2,code wilaya*,wilaya de livraison,"
    "commune de livraison*,adresse de livraison*,produit*,poids (kg),montant du colis*,remarque,"
    "FRAGILE\n( si oui mettez OUI sinon laissez vide ),ESSAYAGE PERMI\n( si oui mettez OUI sinon laissez vide ),"
    "ECHANGE\n( si oui mettez OUI sinon laissez vide ),PICK UP\n( si oui mettez OUI sinon laissez vide ),"
    "STOP DESK\n( si oui mettez OUI sinon laissez vide ),Lien map"
)


def row(number: object = "A1", **changes: str) -> list[str]:
    cells = {
        "number": str(number), "name": "Amine", "phone": "0550 12 34 56", "wilaya": "Alger",
        "address": "3, rue Didouche", "product": "Robe", "quantity": "2", "price": "2 500,50",
    }  # fmt: skip
    return list((cells | changes).values())


def csv_of(rows: Iterable[Sequence[str]], header: Sequence[str] = HEADER, delimiter: str = ";") -> bytes:
    file = StringIO(newline="")
    csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return file.getvalue().encode()


def xlsx_of(rows: Iterable[Sequence[Any]], header: Sequence[str] = HEADER) -> bytes:
    return b"".join(workbooks.pieces(header, rows))


def announce(browser: Client, data: bytes, name: str = "orders.csv", page: str = PAGE) -> Upload:
    """Announce a file as the page's script does, without sending any piece."""
    answer = browser.post(page, {"name": name, "size": len(data)})
    assert answer.status_code == 200, answer.content
    return Upload.objects.get(id=answer.json()["address"].rpartition("/")[2])


def send_piece(browser: Client, upload: Upload, number: int, data: bytes) -> HttpResponse:
    start = number * arrival.PIECE_BYTES
    piece = SimpleUploadedFile("blob", data[start : start + arrival.PIECE_BYTES] or b"x")
    return browser.post(f"/account/uploads/{upload.id}/piece", {"number": number, "data": piece})


def send(browser: Client, data: bytes, name: str = "orders.csv", page: str = PAGE) -> Upload:
    """Upload a file in pieces, and have the worker read it."""
    upload = announce(browser, data, name, page)
    for number in range(arrival.piece_count(upload)):
        assert send_piece(browser, upload, number, data).status_code == 200
    processing.go_on()
    upload.refresh_from_db()
    return upload


def chosen(browser: Client, upload: Upload) -> dict[str, str]:
    """The columns that the form proposes."""
    form = browser.get(f"/account/uploads/{upload.id}").context["form"]
    return {name: str(place) for name, place in form.initial.items()}


def take_in(browser: Client, upload: Upload, **changes: str) -> Upload:
    """Confirm the proposed columns, with `changes`, and have the worker take the rows in."""
    context = browser.get(f"/account/uploads/{upload.id}").context
    seen = {"seen": str(context["same"].id)} if context["same"] else {}
    answer = browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload) | seen | changes)
    assert answer.status_code == 302, answer.content.decode()
    processing.go_on()
    upload.refresh_from_db()
    return upload


def downloaded(browser: Client, path: str) -> bytes:
    answer = browser.get(path)
    assert answer.status_code == 200
    return b"".join(answer.streaming_content)


def next_steps(page: str) -> dict[str, str]:
    """The buttons below an upload's counts, and their styles."""
    return {
        name: kind for kind, name in re.findall(r'<a class="button (\w+)" href="/account/orders[^"]*">([^<]+)', page)
    }

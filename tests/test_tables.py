"""CSV files that no spreadsheet runs, and that say the same when they come back."""

import base64
import csv
import re
import resource
import sys
import tempfile
import zipfile
import zlib
from io import StringIO
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codservice.files import sheets
from codservice.files.headings import Column
from codservice.files.safe_csv import SafeWriter
from codservice.files.tables import MAX_ABOVE, MAX_RECORD, MAX_TITLES, Table, UnreadableTable
from orders.order_files.columns import COLUMNS
from tests.harness.disk import needs_root, small_disk
from tests.harness.sheets import Failed, workbook, write_xlsx

# Reading a spreadsheet starts a process.
reads_sheet = pytest.mark.process

FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@A1",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u00a0=1",
    "＝1+1",
    "'=1",
    "a;=1",
    "a\n=1",
    "a\t@b",
    'a;"=1',
    'a\n" "=1',
]


def written(*cells: str, delimiter: str = ",") -> str:
    file = StringIO()
    writer = SafeWriter(file, delimiter)
    writer.write([f"c{number}" for number in range(len(cells))])
    writer.write(cells)
    return file.getvalue()


def read(text: str, path: Path) -> list[str]:
    path.write_text(text, encoding="utf-8", newline="")
    (row,) = Table(path)
    return list(row.cells.values())


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_begins_a_formula_wherever_a_spreadsheet_begins_a_cell(formula: str) -> None:
    text = written("x", formula, "0550 12 34 56")  # behind a cell: there no quotation mark begins one elsewhere

    for delimiter in ",;\t":
        lines = text.splitlines() if delimiter != "," else []
        for cells in [*csv.reader(lines, delimiter=delimiter), *csv.reader(StringIO(text, newline=""))]:
            for cell in cells:
                assert cell.strip(' "\t\r\n\u00a0')[:1] not in ("=", "+", "-", "@", "＝"), (delimiter, cells)


@given(
    st.lists(st.text(alphabet="=+-@'\"a1 \t\r\n,;＝é", max_size=10), min_size=2, max_size=4),
    st.sampled_from(",;\t"),
)
def test_what_was_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str], delimiter: str
) -> None:
    cells = ["x", *(cell.strip() for cell in cells)]

    assert read(written(*cells, delimiter=delimiter), tmp_path_factory.mktemp("t") / "t.csv") == cells


@pytest.mark.parametrize("full_of", ["\t'", "\t", " ", "'", ";'", "\n' ", '"'], ids=repr)
def test_a_cell_costs_what_its_length_costs_whatever_it_is_full_of(tmp_path: Path, full_of: str) -> None:
    cell = f"x{full_of * (60_000 // len(full_of))}x"
    began = thread_time()

    assert read(written("x", cell), tmp_path / "t.csv") == ["x", cell]

    assert thread_time() - began < 1, "seconds of a processor that no other thread of the worker gets"


@reads_sheet
def test_an_apostrophe_of_a_spreadsheet_or_a_person_is_taken_away_and_one_of_a_text_is_not(tmp_path: Path) -> None:
    write_xlsx(tmp_path / "t.xlsx", [["a", "b", "c"], ["'+213550123456", "'tis", "rue Ben M'hidi"]])

    (row,) = Table(tmp_path / "t.xlsx")

    assert list(row.cells.values()) == ["+213550123456", "'tis", "rue Ben M'hidi"]


@reads_sheet
def test_a_number_of_a_spreadsheet_is_what_people_see_there(tmp_path: Path) -> None:
    seen = {
        7500.2999999999993: "7500.3", 0.1 + 0.2: "0.3", 1900.0: "1900", -1.5: "-1.5", 213550123456.0: "213550123456",
        613000123456789.0: "613000123456789", 999999999999999.0: "999999999999999", 1e15: "1.00000E+15",
        1234567890123456.5: "1.23457E+15", 0.00000012: "0.00000012",
    }  # fmt: skip
    write_xlsx(tmp_path / "t.xlsx", [[f"c{number}" for number in range(len(seen))], list(seen)])

    (row,) = Table(tmp_path / "t.xlsx")

    assert list(row.cells.values()) == list(seen.values())


@reads_sheet
def test_the_error_of_a_formula_is_what_people_see_there(tmp_path: Path) -> None:
    failed = [Failed("#REF!"), 'c t="e">', Failed("#N/A")]
    write_xlsx(tmp_path / "t.xlsx", [["a", "b", "c"], *[failed] * 10_000])  # more than one piece's worth

    rows = list(Table(tmp_path / "t.xlsx"))

    assert len(rows) == 10_000
    assert all([*row.cells.values()] == failed for row in rows)


@reads_sheet
@pytest.mark.parametrize("is_of_windows", [False, True])
def test_a_formula_without_a_result_is_no_empty_cell(tmp_path: Path, is_of_windows: bool) -> None:
    """As written by programs that do not calculate. An empty text is a result."""
    formulas = (
        '<c><f>1+1</f></c><c t="n" s="0"><f>1+1</f><v/></c><c s="0"><f t="shared" si="0"/> <v> </v></c>'
        '<c t="str"><f>""</f><v/></c><c><f>1+1</f><v>2</v></c><c t="e"><f>NA()</f><v>#N/A</v></c>'
    )
    headings = "".join(text(f"{name}1", name) for name in "ABCDEF")
    path = sheet_with(tmp_path / "t.xlsx", f'<row r="1">{headings}</row>' + f"<row>{formulas}</row>" * 10_000)
    if is_of_windows:
        with zipfile.ZipFile(path) as file:
            parts = {name: file.read(name) for name in file.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, part in parts.items():
                file.writestr(name.replace("xl/worksheets/", "xl\\Worksheets\\"), part)

    rows = list(Table(path))

    assert len(rows) == 10_000
    assert {tuple(row.cells.values()) for row in rows} == {("#CALC!", "#CALC!", "#CALC!", "", "2", "#N/A")}


def test_what_stands_right_of_the_last_column_is_surplus(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2,,\n1,2,3\n1\n")

    assert [(row.line, row.cells, row.surplus) for row in Table(tmp_path / "t.csv")] == [
        (2, {"a": "1", "b": "2"}, []),
        (3, {"a": "1", "b": "2"}, ["3"]),
        (4, {"a": "1"}, []),
    ]


@pytest.mark.parametrize(
    ("text", "says"), [("a,b,A\n1,2,3\n", "two columns a"), ('a,b\n1,"2\n', "not a CSV file"), ("\n\n;;\n", "is empty")]
)
def test_a_table_that_cannot_be_read_is_refused_in_words(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "t.csv").write_text(text)

    with pytest.raises(UnreadableTable, match=says):
        list(Table(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("text", "names", "line"),
    [
        ("sep=;\r\nNom, prénom;Tél\r\nA;1\r\n", ["nom,_prénom", "tél"], 3),
        ("SEP=\t\na,b,c\td\n1\t2\n", ["a,b,c", "d"], 3),
        ('"N°\ncommande";Client\n1;A\n', ["n°\ncommande", "client"], 3),
        ('"Adresse, commune, wilaya";Total\nb;3\n', ["adresse,_commune,_wilaya", "total"], 2),
        ('"a ""b"", c, d"\tTotal\nb\t3\n', ['a_"b",_c,_d', "total"], 2),
        ('TV 24" LED;Total\nb;3\n', ['tv_24"_led', "total"], 2),
        ("sku\n1\n", ["sku"], 2),
        ("sep=|\na,b|c\n1|2\n", ["a,b", "c"], 3),
        ('Commandes\na|"b|c"|d|e\n1|2, x|3|4\n', ["a", "b|c", "d", "e"], 3),
        ("a|b|c|d|e,f\n1,2\n", ["a|b|c|d|e", "f"], 2),
        ('sku|price\n"A|B"|1,50\n', ["sku", "price"], 2),
        ("Robes | Sacs\nsku;price\nA;1|2\n", ["sku", "price"], 3),
        ("Robes | Sacs | Été | 2026\n\nsku;price\nA;1|2\n", ["sku", "price"], 4),
        ("a|b|c|d\n1|2, x|3|4|\n", ["a", "b", "c", "d"], 2),
        ("Commandes, novembre\nNom, prénom;Tél;Wilaya\nA, B;1;Alger\n", ["nom,_prénom", "tél", "wilaya"], 3),
        ("Commandes, novembre\nNom, prénom;Tél;2e;Wilaya\nA, B;1;2;Alger\n", ["nom,_prénom", "tél", "2e", "wilaya"], 3),
        ("sku;stock\nA;2,5\n", ["sku", "stock"], 2),
        ("nom;adresse\nA;12, rue B, Alger\n", ["nom", "adresse"], 2),
        ("nom; adresse\nA; 12, rue B, Alger\n", ["nom", "adresse"], 2),
        ("nom, adresse\nAli, rue; bât A; Alger\n", ["nom", "adresse"], 2),
        ("sku; prix\nA; 1,250,000\n", ["sku", "prix"], 2),
        ("a;b;c,d\n1;2;3,4\n", ["a", "b", "c,d"], 2),
        # Programs pad a title to the width of the table.
        ("Stock, novembre;\nsku;stock\nA;5\n", ["sku", "stock"], 3),
        ("Commandes, Alger, novembre;;\nNom, prénom;Tél;Wilaya\nA, B;1;Alger\n", ["nom,_prénom", "tél", "wilaya"], 3),
        ("nom, prénom;total\nA, B;5\n", ["nom,_prénom", "total"], 2),
        ("nom, prénom|total\nA, B|5\n", ["nom,_prénom", "total"], 2),
    ],
)
def test_cells_are_parted_as_the_header_has_it(tmp_path: Path, text: str, names: list[str], line: int) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8-sig", newline="")
    table = Table(tmp_path / "t.csv")
    assert (table.names, [row.line for row in table]) == (names, [line])
    assert all(not row.surplus and len(row.cells) == len(names) for row in table)


LISTED = tuple(Column(name, name.title()) for name in ("sku", "name", "price", "stock"))


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("nom;adresse\nA;12, rue B, Alger\nC;8, rue D, Oran\n", ["nom", "adresse"]),
        ("code;tailles\nA;S,M,L\nB;S,M,L\n", ["code", "tailles"]),
        ("nom, prénom;total\nA, B;5\nC, D;7\n", ["nom, prénom", "total"]),
        ("SKU, Name, Price\nA;x, Robe; rouge, 25\nB;x, Sac; noir, 30\n", ["SKU", "Name", "Price"]),
        ("Price, novembre;\nArtikel; Price\nA; 5\n", ["Artikel", "Price"]),
        ("SKU;Name;Price\n(required)\nA;Robe;2,5\nB;Sac;3,5\n", ["SKU", "Name", "Price"]),
    ],
)
def test_so_are_those_of_rows_that_are_all_alike(tmp_path: Path, text: str, header: list[str]) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert Table(tmp_path / "t.csv", columns=LISTED, by_place=True).header == header


@pytest.mark.parametrize("above", ["\n", "\r\n\r\n", " \n\t\n", ";;\n\n", '"";""\n', "sep=;\n\n;;\n"])
@pytest.mark.parametrize("heading", ["a;b", '"a,\n,c";b'])
def test_a_table_begins_below_empty_rows(tmp_path: Path, above: str, heading: str) -> None:
    (tmp_path / "t.csv").write_text(f"{above}{heading}\n1;2\n\n3;4\n", newline="")
    table = Table(tmp_path / "t.csv")
    first = above.count("\n") + heading.count("\n") + 2
    assert table.names == [heading.partition(";")[0].strip('"'), "b"]
    assert [(row.line, [*row.cells.values()], row.is_apart) for row in table] == [
        (first, ["1", "2"], False),
        (first + 2, ["3", "4"], True),
    ]


@pytest.mark.parametrize("by_place", [True, False])
def test_a_row_that_repeats_the_headings_is_skipped_and_sets_apart(tmp_path: Path, by_place: bool) -> None:
    """Lists are joined one below the other. Neither is the header a row, nor what stands below it the rest of one."""
    (tmp_path / "t.csv").write_text(
        "Nom;Tél;Wilaya;\nAmine;1;Alger\n\nNom;Tél;Wilaya;\nLina;2;Oran;\nNom;;Wilaya\nNom;3;Wilaya\n"
        "Nom;Tél;Wilaya;x\nTél;Nom;Wilaya\nnom;tél;wilaya\n"
    )
    table = Table(tmp_path / "t.csv", columns=COLUMNS, by_place=by_place)
    rows = [(line, is_apart) for line, _end, _cells, is_apart in table.records()]
    assert rows == [(2, False), (5, True), (7, True), (8, False), (9, False), (10, False)]


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("a\n\n1\n\n2\n\n\n\n3\n\n4\n", ["3"]),  # with doubled line ends
        ("a\n\n1\n2\n\n3\n4\n", ["3"]),
        ("a\n1\n\n2\n\n3\n", ["2", "3"]),
    ],
)
def test_empty_rows_below_each_row_set_none_apart(tmp_path: Path, text: str, apart: list[str]) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert [row.cells["a"] for row in Table(tmp_path / "t.csv") if row.is_apart] == apart


@pytest.mark.parametrize(
    "above",
    [
        "Commandes\n",
        "Commandes, novembre 2026\n",
        "Stock, Oran\nau 12/11\n\n",
        '"Commandes, novembre";;\n\n',
        "x;\n;12/11/2026\n",
        '"de\nnovembre"\n',
        "sep=;\nx;\n",
    ],
)
def test_a_table_begins_below_titles(tmp_path: Path, above: str) -> None:
    (tmp_path / "t.csv").write_text(f"{above}a;b\n1;2\n;3\n")
    table = Table(tmp_path / "t.csv")
    first = above.count("\n") + 2
    assert table.names == ["a", "b"]
    assert [(row.line, row.cells) for row in table] == [(first, {"a": "1", "b": "2"}), (first + 1, {"a": "", "b": "3"})]


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ("Réf;;\nROB-1;5;2500\n", ["Réf", "", ""]),
        (";SKU;\n\nROB-1;5;2500\n", ["", "SKU", ""]),
        ("Produits;;\nSKU;;\nROB-1;5;2500\n", ["SKU", "", ""]),
        ("SKU;;\nRéf;stock;prix\nROB-1;5;2500\n", ["Réf", "stock", "prix"]),
        ("Produits;;\nROB-1;5;2500\n", ["ROB-1", "5", "2500"]),
        ("SKU\nROB-1;5;2500\n", ["ROB-1", "5", "2500"]),
        ("SKU;;\nNummer;Bestand;Preis\nROB-1;5;2500\n", ["Nummer", "Bestand", "Preis"]),
    ],
)
def test_a_header_that_names_one_column_alone_is_no_title(tmp_path: Path, rows: str, header: list[str]) -> None:
    (tmp_path / "t.csv").write_text(rows)
    columns = (Column("sku", "SKU", ("réf",)), Column("stock_quantity", "Stock"))
    assert Table(tmp_path / "t.csv", columns=columns, by_place=True).header == header


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ("Exporté le;26/11/2026;;\nSKU;Name;Price;Stock\nROB-1;Robe;2500;3\n", ["SKU", "Name", "Price", "Stock"]),
        ("Liste;;;\nName;Boutique Lina;;\n;;;\nx;SKU;Name;Price\n1;ROB-1;Robe;2500\n", ["x", "SKU", "Name", "Price"]),
        # A row that names two of them is a header itself. So is one without a clearer row below, or with it far below.
        ("Réf;Name;Price;n\nSKU;Name;Price;Stock\n", ["Réf", "Name", "Price", "n"]),
        ("Réf;Nom;Prix;n\nName;Price;2500;3\n", ["Réf", "Nom", "Prix", "n"]),
        ("a;b;c;d\n" + "1;2;3;4\n" * MAX_TITLES + "SKU;Name;Price;Stock\n", ["a", "b", "c", "d"]),
    ],
)
def test_a_period_or_a_name_above_is_no_header(tmp_path: Path, rows: str, header: list[str]) -> None:
    (tmp_path / "t.csv").write_text(rows)
    table = Table(tmp_path / "t.csv", columns=LISTED, by_place=True)
    assert table.header == header
    assert [line for line, *_ in table.records()][:1] == [rows[: rows.index(";".join(header))].count("\n") + 2]


@pytest.mark.parametrize(
    ("rows", "header", "line"),
    [
        ("Article;;;Price;\nSKU;Name;Poids;Price;Stock\nROB-1;Robe;2;2500;3\n", "SKU;Name;Poids;Price;Stock", 3),
        ("Liste;;;;\n\nN°;Name;;Price;\n;SKU;Name;Price;Stock\n1;ROB-1;Robe;25;3\n", "N°;SKU;Name;Price;Stock", 5),
        # This is not so where the next row has no more cells, or names fewer.
        ("Name;Price;;x\nSKU;Name;Price;\nROB-1;Robe;25;3\n", "Name;Price;;x", 2),
        ("Name;Price;;\nSKU;Robe;Sac;Price\nROB-1;Robe;25;3\n", "Name;Price;;", 2),
        ("Name;Price;;\n\nSKU;Name;Price;Stock\nROB-1;Robe;25;3\n", "Name;Price;;", 3),
    ],
)
def test_nor_are_groups_above_the_headings(tmp_path: Path, rows: str, header: str, line: int) -> None:
    (tmp_path / "t.csv").write_text(rows)
    columns = (Column("sku", "SKU"), Column("name", "Name", ("article",)), *LISTED[2:])
    table = Table(tmp_path / "t.csv", columns=columns, by_place=True)
    assert (table.header, next(table.records())[0]) == (header.split(";"), line)


@reads_sheet
def test_nor_is_one_of_a_sheet(tmp_path: Path) -> None:
    write_xlsx(tmp_path / "t.xlsx", [["sku"], ["ROB-1", "5"], ["ROB-2", "7"]])
    table = Table(tmp_path / "t.xlsx", columns=(Column("sku", "SKU"),), by_place=True)
    assert [line for line, *_ in table.records()] == [2, 3]


@pytest.mark.parametrize("rows", ["", "x\n", "x\n" * MAX_TITLES + "x,y\n"])
def test_of_one_column_the_first_row_is_the_header(tmp_path: Path, rows: str) -> None:
    (tmp_path / "t.csv").write_text(f"\nsku\n{rows}")
    assert Table(tmp_path / "t.csv").header == ["sku"]


def test_a_file_of_empty_rows_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n" * (MAX_ABOVE + 1) + "a;b\n1;2\n")
    with pytest.raises(UnreadableTable, match="is empty"):
        Table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("\n" * MAX_ABOVE + "a;b\n1;2\n")
    assert [(row.line, row.cells) for row in Table(tmp_path / "t.csv")] == [(MAX_ABOVE + 2, {"a": "1", "b": "2"})]


@reads_sheet
def test_a_sheet_begins_below_its_title(tmp_path: Path) -> None:
    write_xlsx(tmp_path / "t.xlsx", [["LISTE DES COMMANDES"], [], ["", "", "12/11/2026"], ["sku", "name"], ["x", "y"]])
    assert [(row.line, row.cells["sku"], row.cells["name"]) for row in Table(tmp_path / "t.xlsx")] == [(5, "x", "y")]


@reads_sheet
def test_a_sheet_begins_below_empty_rows(tmp_path: Path) -> None:
    rows = f'<row r="3">{text("B3", "sku")}</row><row r="4">{text("B4", "x")}</row><row r="6">{text("B6", "y")}</row>'
    for path in (sheet_with(tmp_path / "t.xlsx", rows), sheet_with(tmp_path / "u.xlsx", f'<row r="1"/>{rows}')):
        found = [(row.line, row.cells["sku"], row.is_apart) for row in Table(path)]
        assert found == [(4, "x", False), (6, "y", True)]


@pytest.mark.parametrize("before", ["", "sep=,\n"])
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, before: str) -> None:
    for row, says in (
        ('"Robe "Sahara"",1', "not a CSV file: line {}:"),
        (f'"{"x" * MAX_RECORD}', "at line {} that does"),
    ):
        (tmp_path / "t.csv").write_text(f'{before}a,b\n"1\n1",2\n{row}\n')
        with pytest.raises(UnreadableTable, match=says.format(5 if before else 4)):
            list(Table(tmp_path / "t.csv"))


def test_what_a_terminal_obeys_is_told_of_no_heading(tmp_path: Path) -> None:
    heading = "\x1b[2J" + "x" * 1000
    (tmp_path / "t.csv").write_text(f"sku,{heading},{heading}\n1,2,3\n")
    with pytest.raises(UnreadableTable) as refused:
        Table(tmp_path / "t.csv")
    assert "two columns \ufffd[2j" in str(refused.value)
    assert len(str(refused.value)) < 500


# --- Files that are more than they look -------------------------------------------------------------------------------


def sheet_with(path: Path, cells: str) -> Path:
    """Write an XLSX file whose only sheet has these rows."""
    write_xlsx(path, [])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    name = "xl/worksheets/sheet1.xml"
    parts[name] = parts[name].replace(b"<sheetData></sheetData>", f"<sheetData>{cells}</sheetData>".encode())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return path


def text(reference: str, value: str = "x") -> str:
    return f'<c r="{reference}" t="inlineStr"><is><t>{value}</t></is></c>'


FAR_AWAY = f'<row r="1">{text("A1", "sku")}</row><row r="1048576">{text("XFD1048576")}</row>'
WIDE = f'<row r="1">{text("A1", "sku")}{text("XFD1")}</row>'


@reads_sheet
@pytest.mark.parametrize(
    ("cells", "says"), [(FAR_AWAY, "too large a spreadsheet"), (WIDE, "16384 columns")], ids=["far", "wide"]
)
def test_a_small_file_cannot_fill_the_memory(tmp_path: Path, cells: str, says: str) -> None:
    path = sheet_with(tmp_path / "t.xlsx", cells)
    assert path.stat().st_size < 1 << 20
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss

    with pytest.raises(UnreadableTable, match=says):
        Table(path)

    largest = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) << 10
    assert largest <= max(sheets.MAX_MEMORY, before << 10)


def shared(path: Path, text: str, cells: int) -> Path:
    """Write a file whose second row has this text in so many cells, but stored once."""
    names = [chr(ord("A") + place) for place in range(cells)]
    again = "".join(f'<c r="{name}2" t="s"><v>0</v></c>' for name in names)
    header = "".join(f'<c r="{name}1" t="inlineStr"><is><t>{name}</t></is></c>' for name in names)
    sheet_with(path, f'<row r="1">{header}</row><row r="2">{again}</row>')
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(
        "</Types>", '<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    )  # fmt: skip
    parts["xl/_rels/workbook.xml.rels"] = parts["xl/_rels/workbook.xml.rels"].replace(
        "</Relationships>", '<Relationship Id="rId2" Target="sharedStrings.xml" Type="http://schemas.openxmlformats.org'
        '/officeDocument/2006/relationships/sharedStrings"/></Relationships>',
    )  # fmt: skip
    parts["xl/sharedStrings.xml"] = f'<sst xmlns="{main}"><si><t>{text}</t></si></sst>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return path


@reads_sheet
@pytest.mark.parametrize(("length", "cells"), [(sheets.MAX_CELL + 1, 1), (10 << 20, 20), (sheets.MAX_CELL, 26)])
def test_a_text_that_stands_once_cannot_fill_many_cells(tmp_path: Path, length: int, cells: int) -> None:
    path = shared(tmp_path / "t.xlsx", "é" * length, cells)
    assert path.stat().st_size < 50_000
    with pytest.raises(UnreadableTable, match=r"too much text in row 2\.$"):
        Table(path)


@reads_sheet
def test_nor_many_rows(tmp_path: Path) -> None:
    path = shared(tmp_path / "t.xlsx", "é" * 10_000, 26)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    above, row, below = re.split(rb'(<row r="2">.*</row>)', parts["xl/worksheets/sheet1.xml"])
    rows = [row.replace(b'2"', b'%d"' % number) for number in range(2, 600)]
    parts["xl/worksheets/sheet1.xml"] = b"".join([above, *rows, below])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    assert path.stat().st_size < 100_000
    with pytest.raises(UnreadableTable, match=r"more than 256 MiB of text\. Send it in parts\.$"):
        Table(path)


@reads_sheet
def test_as_much_text_as_a_spreadsheet_takes_is_read(tmp_path: Path) -> None:
    (row,) = Table(shared(tmp_path / "t.xlsx", "a" * sheets.MAX_CELL, 20))
    assert [len(cell) for cell in row.cells.values()] == [sheets.MAX_CELL] * 20


@reads_sheet
def test_of_several_sheets_the_first_that_is_shown_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    write_xlsx(path, [["shown"], ["1"]])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    book, links, types = "xl/workbook.xml", "xl/_rels/workbook.xml.rels", "[Content_Types].xml"
    parts[book] = parts[book].replace("<sheets>", '<sheets><sheet name="L" sheetId="2" state="hidden" r:id="rId2"/>')
    parts[links] = parts[links].replace(
        "</Relationships>", '<Relationship Id="rId2" Target="worksheets/sheet2.xml" Type="http://schemas.'
        'openxmlformats.org/officeDocument/2006/relationships/worksheet"/></Relationships>',
    )  # fmt: skip
    parts[types] = parts[types].replace(
        "</Types>", '<Override PartName="/xl/worksheets/sheet2.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.spreadsheetml.worksheet+xml"/></Types>',
    )  # fmt: skip
    parts["xl/worksheets/sheet2.xml"] = parts["xl/worksheets/sheet1.xml"].replace("shown", "hidden")
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)

    table = Table(path)
    assert (table.names, table.sheet) == (["shown"], ""), "nobody sees the other one"


@reads_sheet
def test_of_several_sheets_that_are_shown_the_one_that_is_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(workbook({"Été & <x>": [["a"], ["1"]], "Août": [["b"]]}))
    table = Table(tmp_path / "t.xlsx")
    assert (table.names, table.sheet) == (["a"], "Été & <x>")
    (tmp_path / "t.xlsx").write_bytes(workbook({"\x1b[2Ja\n\u202eb": [["a"]], "Août": [["b"]]}))
    assert Table(tmp_path / "t.xlsx").sheet == "\ufffd[2Ja\ufffd\ufffdb", "it is said in terminals and logs"
    (tmp_path / "t.xlsx").write_bytes(workbook({"Résumé": [], "Août": [["b"]]}))
    with pytest.raises(UnreadableTable, match=r"has an empty sheet in front, Résumé\. Its first line"):
        Table(tmp_path / "t.xlsx")


@reads_sheet
def test_a_small_file_that_unpacks_to_much_is_not_read(tmp_path: Path) -> None:
    path = sheet_with(tmp_path / "t.xlsx", f'<row r="1">{text("A1", "sku")}</row>')
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("xl/sharedStrings.xml", "w") as part,
    ):
        for _ in range((sheets.MAX_UNZIPPED >> 20) + 1):
            part.write(b" " * (1 << 20))
    assert path.stat().st_size < 2 << 20

    with pytest.raises(UnreadableTable, match="unpacks to"):
        Table(path)


MANY_EMPTY_TEXTS = b'<x calcext:value-type="error"/><y ' + b'office:string-value="" ' * 45_000


@reads_sheet
@pytest.mark.parametrize(
    ("name", "pieces"),
    [("xl/worksheets/sheet2.xml", [b"a" * (1 << 20)] * 250), ("content.xml", [MANY_EMPTY_TEXTS])],
    ids=["no tag", "one tag"],
)
def test_a_part_without_end_of_rows_does_not_hold_up_who_reads(tmp_path: Path, name: str, pieces: list[bytes]) -> None:
    """All parts with sheets are searched for errors of formulas, in pieces that end where rows do."""
    path = tmp_path / "t.xlsx"
    path.write_bytes(workbook({"A": [["sku"], ["1"]]}))
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open(name, "w") as part,
    ):
        for piece in pieces:
            part.write(piece)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    assert Table(path).names == ["sku"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 20  # a second, or more than seventy


@reads_sheet
def test_a_sheet_that_ends_far_down_is_read(tmp_path: Path) -> None:
    rows = f'<row r="1">{text("A1", "sku")}</row><row r="50000">{text("A50000", "last")}</row>'
    table = Table(sheet_with(tmp_path / "t.xlsx", rows))

    assert table.line_count() == 50_000
    assert [(row.line, row.cells) for row in table] == [(50_000, {"sku": "last"})]
    assert [row.line for row in table] == [50_000], "a second time"


@reads_sheet
def test_who_reads_a_spreadsheet_is_told_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs in C and Rust take strangers' files apart there."""
    for name in ("SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL", "REDIS_URL", "EMAIL_URL"):
        monkeypatch.setenv(name, "not-for-strangers")
    (tmp_path / "python").write_text("#!/bin/sh\nenv\n")
    (tmp_path / "python").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    write_xlsx(tmp_path / "t.xlsx", [])
    with (tmp_path / "t.xlsx").open("rb") as file:
        rows, _sheet = sheets.read(file)
    rows.seek(0)
    said = rows.read()
    assert b"PATH=" in said
    assert b"not-for-strangers" not in said


@reads_sheet
def test_who_reads_a_spreadsheet_and_comes_to_no_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho $$ > $0.pid\nexec sleep 600\n")
    (tmp_path / "python").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sheets, "MAX_SECONDS", 1, raising=False)
    write_xlsx(tmp_path / "t.xlsx", [])

    with pytest.raises(UnreadableTable, match="too large a spreadsheet"):
        Table(tmp_path / "t.xlsx")

    assert not Path("/proc", (tmp_path / "python.pid").read_text().strip()).exists()


@reads_sheet
@needs_root
def test_a_spreadsheet_is_not_refused_because_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_xlsx(tmp_path / "a.xlsx", [["sku", "name"], ["A", "Robe"]])
    with small_disk(tmp_path / "disk", 1) as disk:
        disk.fill()
        monkeypatch.setattr(tempfile, "tempdir", str(disk.folder))
        with pytest.raises(OSError, match=f"no space is left in {disk.folder}"):
            Table(tmp_path / "a.xlsx")


# Two columns, `fee` and `x`, with `#N/A` and `=1/0` below `fee`, as Excel 97 saves them; compressed, and not in base64,
# which looks like secrets.
XLS = (
    "c-rk)O=wd=5dQWhFMqV@do>jrF@%EE#$LpWm-eZkJz1(3MFdUl6Qm`T;KBA{wdN=Yo)j;IUc6Mj_<zuw2ce<|K@bu>dJ+^owAs$i+h^10p#fV|_Iv"
    "E?WM+1EvNJo$zBh|*b?!m7h9(Rmg1Ss1)*utqlHmsjq?b~$VV|HT4gM)46BNjpjc4tz<0^(K-ZfabAALy__(bg#E?{`F<mWdL2ib?BP(BP06}Ur^G"
    "`iWVPNrv>Zee<lEuS;p&ywp*2gtT6PGZp;F6`4;e8TEsT^efMM?B^OOZK1(uT&Oaz99lz8wbkgixYpRA{TALJSc8Me#tKvC#uL$0O#>t=7DeFNqvz"
    "w^39bCko?D5dHgr>n^qK<fjq+rUZLXpG!g{3xP&Z7$&F;^e4j#piP{vk>6EI(d~%&NC%2t5x{c@<I+%AkuN|t*OLxD%Ju*7too2}lSL>jr?@(?);)"
    ")tUgVU^GPuRA=bT`whJnJ^*vrIFTjnwy!bZO@BEZbaTZ7;2}m+{Wq*}(52zVhYh<6Pyl*GK%qP;EN1@ZOt44{gI3jaSbs`bEFEeM{kq7xqG*|Bp<&"
    "f2jot%hA3|{lnFPWu%yOnFgQK?g(u!n(S>W!7>*Gp{&Kvy;Rm#lXVQ+S?20plUfx=P9R6IQBwrrPzHlmCmt$$DpjjU!N9=4z`(%3z`$UGA@qOzh`w"
    "vs`X&+A?{$``)y->?{}#tENzX;Pm>xoj`ZA_k%Ac*UML3sO=a}$)p~7)my^L{;vLE9u=P%s^MdSBb_dw^*9idj&ueajo2Cu&Yshq&c"
)


@reads_sheet
@pytest.mark.parametrize("name", ["t.xls", "t.xlsx"])
@pytest.mark.parametrize("has_zip", [False, True])
def test_a_spreadsheet_of_old_excel_whose_errors_we_cannot_see_is_refused(
    tmp_path: Path, name: str, has_zip: bool
) -> None:
    """Calamine reads them as empty cells: a fee that failed would be none. A theme within is a ZIP file."""
    (tmp_path / name).write_bytes(zlib.decompress(base64.b85decode(XLS)))
    if has_zip:
        with zipfile.ZipFile(tmp_path / name, "a") as theme:
            theme.writestr("theme/theme1.xml", "<a/>")
    with pytest.raises(UnreadableTable, match=r"may be an \.xls or have a password"):
        Table(tmp_path / name)


@reads_sheet
def test_what_is_said_of_a_broken_file_quotes_little_of_it(tmp_path: Path) -> None:
    """The sentence is stored, and shown to whoever sent the file."""
    path = sheet_with(tmp_path / "t.xlsx", f'<row r="1"><c r="A1" t="{"q" * 1_000_000}"><v>1</v></c></row>')
    assert path.stat().st_size < 8 << 10
    with pytest.raises(UnreadableTable, match="not a spreadsheet that we can read") as refused:
        Table(path)
    assert len(str(refused.value)) < 300


@reads_sheet
def test_a_file_that_only_says_it_is_a_spreadsheet_is_refused_in_words(tmp_path: Path) -> None:
    for name in ("t.xlsx", "t.xls", "t.ods", "t.xlsm"):
        for content in (b"", b"sku,name\n1,2\n", b"PK\x03\x04" + b"\0" * 100):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(UnreadableTable, match="not a spreadsheet that we can read"):
                Table(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Table(tmp_path / "nothing.xlsx")


@pytest.mark.parametrize(
    "content",
    [
        "x" * (MAX_RECORD + 1),
        "sku\n" + "x" * (MAX_RECORD + 1),
        "sku\n" + '"' + '\n","' * (MAX_RECORD // 4 + 1),
        'sku\n"' + "x\n" * (MAX_RECORD // 2),
    ],
    ids=["header", "line", "quotes", "quote"],
)
def test_a_row_that_does_not_end_is_not_taken_into_memory(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UnreadableTable, match=r"does not end\. Is a quotation mark left open"):
        list(Table(tmp_path / "t.csv"))


def test_rows_that_a_quotation_mark_of_a_text_takes_in_are_not_lost(tmp_path: Path) -> None:
    """Google's .tsv quotes nothing: a cell may begin with a quotation mark, and a later one end with one."""
    path = tmp_path / "orders.tsv"
    path.write_text('name\tnotes\nAmine\t"fragile\nNadia\t\nLina\técran 5"\nSami\t\n')
    with pytest.raises(UnreadableTable, match="line 2 that does not end"):
        list(Table(path))
    path.write_text('name\tnotes\nAmine\t"fragile,\nvite"\nNadia\t"a\tb"\n')
    assert [row.cells["notes"] for row in Table(path)] == ["fragile,\nvite", "a\tb"]


@pytest.mark.parametrize("above", ["", "sku,name,stock\n"], ids=["header", "row"])
def test_a_row_of_more_cells_than_a_spreadsheet_has_is_refused_before_its_headings_are_compared(
    tmp_path: Path, above: str
) -> None:
    """To match half a million columns with ours would take a processor minutes."""
    (tmp_path / "t.csv").write_text(f"{above}{'ref,' * 20_000}sku\n1,2\n")
    began = thread_time()
    with pytest.raises(UnreadableTable, match=r"20001 columns\. It can have at most 500"):
        list(Table(tmp_path / "t.csv", columns=COLUMNS, by_place=True).records())
    assert thread_time() - began < 1


def test_cells_that_are_empty_to_the_right_are_no_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"sku,name{',' * 16_000}\nx,y{', ' * 16_000}\n")
    assert [row.cells["sku"] for row in Table(tmp_path / "t.csv")] == ["x"]


def test_a_long_file_of_short_rows_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("sku,note\n" + f'a,"{"x" * 60_000}\n"\n' * 100)
    assert sum(1 for _ in Table(tmp_path / "t.csv")) == 100

"""CSV files that no spreadsheet runs, and that say the same when they come back."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codservice.files.tables import SafeWriter, Table, UnreadableTable
from tests.harness.sheets import write_xlsx

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
    text = written(formula, "0550 12 34 56")

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


def test_an_apostrophe_of_a_spreadsheet_or_a_person_is_taken_away_and_one_of_a_text_is_not(tmp_path: Path) -> None:
    write_xlsx(tmp_path / "t.xlsx", [["a", "b", "c"], ["'+213550123456", "'tis", "rue Ben M'hidi"]])

    (row,) = Table(tmp_path / "t.xlsx")

    assert list(row.cells.values()) == ["+213550123456", "'tis", "rue Ben M'hidi"]


def test_what_stands_right_of_the_last_column_is_surplus(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2,,\n1,2,3\n1\n")

    assert [(row.line, row.cells, row.surplus) for row in Table(tmp_path / "t.csv")] == [
        (2, {"a": "1", "b": "2"}, []),
        (3, {"a": "1", "b": "2"}, ["3"]),
        (4, {"a": "1"}, []),
    ]


@pytest.mark.parametrize(
    ("text", "says"), [("a,b,A\n1,2,3\n", "two columns a"), ('a,b\n1,"2\n', "no CSV file"), ("\n\na\n", "is empty")]
)
def test_a_table_that_cannot_be_read_is_refused_in_words(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "t.csv").write_text(text)

    with pytest.raises(UnreadableTable, match=says):
        list(Table(tmp_path / "t.csv"))

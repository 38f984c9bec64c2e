"""The rules' sentences about rows, forms and searches, in the words and the language of the person who reads them.

Rules speak English, as the API does. Each sentence that a row, form or search can meet is here with the pages' wording
for it. Any other is shown as it is.
"""

import re
from decimal import Decimal
from functools import cache
from typing import Any

from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from codservice.i18n_tags import dinars

# The rules' sentence, with names for its variable parts → the pages' wording, with the same names.
_SENTENCES: dict[str, Any] = {
    # Values.
    "This field is required.": _("This is missing."),
    "This field is required without product_id.": _("This is missing."),
    "Must be a string.": _("Must be text."),
    "Must not be empty.": _("Must not be empty."),
    "Must not contain control characters or broken Unicode.": _(
        "Has characters that cannot be stored. Remove or replace them."
    ),
    "Must have at most <most> characters.": _("Must have at most %(most)s characters."),
    "Must be an integer, as a JSON number without a point.": _("Must be a whole number."),
    "Must be an integer from <least> to <most>.": _("Must be a whole number from %(least)s to %(most)s."),
    "Must be from <least> to <most>.": _("Must be from %(least)s to %(most)s."),
    "Must be a number, or a string of digits with at most one point.": _("Must be an amount such as 400 or 400.50."),
    "Must have at most two decimal places.": _("Must have at most two decimal places."),
    "Must be a UUID.": _("Must be the id of a product."),
    "Must be a complete URL, such as https://shop.example/robe.jpg.": _(
        "Must be a complete address, such as https://shop.example/robe.jpg."
    ),
    "Must start with https://.": _("Must start with https://."),
    "Must not contain a user name or password.": _("Must not contain a user name or password."),
    "Must be true or false, yes or no, oui or non, 1 or 0.": _("Must be yes or no."),
    "Must have at most <most> characters once its special characters are encoded.": _(
        "Must have at most %(most)s characters once its special characters are encoded."
    ),
    "Must have at most <most> keys.": _("A line can have at most %(most)s details."),
    "A key cannot be used. <why>": _(
        "The name of a detail cannot be used: it is empty, too long or has characters that cannot be stored."
    ),
    "Two keys are the same text: <text>": _("Two details of a line have the same name: %(text)s"),
    "Must be an object with string values.": _('Must be a JSON object with texts, such as {"taille": "M"}.'),
    # Orders.
    "Must be home or desk.": _("Must be “home” or “desk” (a stop desk)."),
    "The stop desk column contradicts this. Correct one of the two.": _(
        "The stop desk column contradicts this. Correct one of the two."
    ),
    "Must be an Algerian phone number, such as 0550 12 34 56 or +213550123456.": _(
        "Must be an Algerian phone number, such as 0550 12 34 56."
    ),
    "Must have 1 to <most> entries.": _("An order can have at most %(most)s lines."),
    '"<text>" is not the code or name of a wilaya.': _("“%(text)s” is not a wilaya."),
    '"<text>" is not the code or name of a wilaya. Did you mean <names>?': _(
        "“%(text)s” is not a wilaya. Did you mean %(names)s?"
    ),
    '"<text>" may be more than one name of a wilaya. Did you mean <names>?': _(
        "“%(text)s” could be several wilayas. Did you mean %(names)s?"
    ),
    '"<text>" is not the code or name of a commune of <wilaya>.': _("“%(text)s” is not a commune of %(wilaya)s."),
    '"<text>" is not the code or name of a commune of <wilaya>. Did you mean <names>?': _(
        "“%(text)s” is not a commune of %(wilaya)s. Did you mean %(names)s?"
    ),
    '"<text>" is not the code or name of a commune of <wilaya>. It lies in <names>.': _(
        "“%(text)s” is not a commune of %(wilaya)s. It lies in %(names)s."
    ),
    '"<text>" may be more than one name of a commune of <wilaya>. Did you mean <names>?': _(
        "“%(text)s” could be several communes of %(wilaya)s. Did you mean %(names)s?"
    ),
    "No product of this account has this id.": _("None of your products has this id."),
    "Another order of this account already has it.": _("You already have an order with this number."),
    "Line <line> has the same external_id, with other orders in between. Put an order's rows next to each other.": _(
        "Line %(line)s has the same order number, with other orders in between. Put an order's rows next to each other."
    ),
    "Line <line> of the same order has a different value.": _("Line %(line)s of the same order has a different value."),
    "Is a long number that a spreadsheet has shortened. Format the column as text, and enter the numbers again.": _(
        "The spreadsheet has shortened this long number. Format the column as text, and enter the numbers again."
    ),
    "Is a number that a spreadsheet has shortened, and its last digits are lost. Format the column as text, "
    "and enter the numbers again.": _(
        "The spreadsheet has shortened this number, and its last digits are lost. Format the column as text, "
        "and enter the numbers again."
    ),
    "Enter the order number in each of the order's rows: in a file of refused rows, nothing else shows that "
    "they belong together.": _(
        "Enter the order number in each of the order's rows: in a file of refused rows, nothing else shows "
        "that they belong together."
    ),
    "May be a line of the order above. If so, enter that order's number here. If not, enter a number of its own.": _(
        "This may be a line of the order above. If so, enter that order's number here. If not, enter a number "
        "of its own."
    ),
    "May be a line of the order above. If so, enter that order's number here. If not, enter the customer.": _(
        "This may be a line of the order above. If so, enter that order's number here. If not, enter the customer."
    ),
    "The order with this number already exists, with another phone. Correct it, or enter another number.": _(
        "The order with this number already exists, with another phone. Correct it, or enter another number."
    ),
    "The order with this number already exists, without this row. Correct it, or enter another number.": _(
        "The order with this number already exists, without this row. Correct it, or enter another number."
    ),
    "The order with this number already exists, with fewer lines than in the file. Correct it, or enter "
    "another number.": _(
        "The order with this number already exists, with fewer lines than in the file. Correct it, or enter "
        "another number."
    ),
    "Is a total of the rows above, not an order.": _("This looks like a total of the rows above, not an order."),
    "May be a total of the rows above. Leave it out or, if it is a product, give it a longer name.": _(
        "This may be a total of the rows above. Leave it out or, if it is a product, give it a longer name."
    ),
    "One of the order's rows may be a total or a product. If it is a total, leave it out. If it is a product, "
    "enter the order number in each of the rows.": _(
        "One of this order's rows may be a total or a product. If it is a total, leave it out. If it is a "
        "product, enter the order number in each of the rows."
    ),
    "“<text>” is not a status. Use one or several of: <known>.": _("“%(text)s” is not a status."),
    # Products.
    "Line <line> has the same SKU.": _("Line %(line)s has the same SKU."),
    "Each SKU: <why>": _("A SKU cannot be used: it is empty, too long or has characters that cannot be stored."),
    "Must have at most <most> SKUs.": _("Enter at most %(most)s SKUs at once."),
    "There is no product with this SKU yet, and a new product needs this.": _(
        "You have no product with this SKU yet, and a new product needs this."
    ),
    # Rows and files.
    "See line <line>.": _("This row is fine. See line %(line)s of the same order."),
    "The row has more cells than the first line has columns. Put text with commas in quotes.": _(
        "The row has more cells than the first line has columns. Put text with commas in quotes."
    ),
    "Is an error from the spreadsheet's formula. Correct it, or enter the value.": _(
        "This formula gives an error or no result. Correct it in the spreadsheet and save it there, or enter the value."
    ),
    "We could not continue with this file. What is counted here was imported.": _(
        "We could not continue with this file. What is counted here was imported."
    ),
    "The file was sent again: the newer one takes its place.": _(
        "The file was sent again: the newer one takes its place."
    ),
    "The file is empty. Its first line must name the columns.": _(
        "The file is empty. Its first line must name the columns."
    ),
    "The file has an empty sheet in front, <sheet>. Its first line must name the columns.": _(
        "The first visible sheet of the file, %(sheet)s, is empty. Its first line must name the columns."
    ),
    "The file has no rows below its first line.": _("The file has no rows below its first line."),
    "The file has more than <most> rows. Send it in parts.": _(
        "The file has more than %(most)s rows. Send it in parts."
    ),
    "The file has <count> columns. It can have at most <most>.": _(
        "The file has %(count)s columns. It can have at most %(most)s."
    ),
    "The file has a row at line <line> that does not end. Is a quotation mark left open?": _(
        "The row at line %(line)s of the file does not end. Is a quotation mark left open?"
    ),
    "The file has more than <most> MiB of text. Send it in parts.": _(
        "The file has more than %(most)s MB of text. Send it in parts."
    ),
    "The file has too much text in row <row>.": _("The file has too much text in row %(row)s."),
    "The file is not UTF-8. Save it as “CSV UTF-8”.": _(
        "The file's characters cannot be read. Save it as “CSV UTF-8”, or as XLSX."
    ),
    "The file is not a CSV file: line <line>: <why>.": _(
        "The file is not a CSV file: the row at line %(line)s cannot be read. Is a quotation mark in it not doubled, "
        "or not closed?"
    ),
    "The file is not a spreadsheet that we can read: <why>.": _(
        "The file is not a spreadsheet that we can read. Open it in a spreadsheet program, and save it as XLSX, "
        "without a password."
    ),
    "The file is too large a spreadsheet to be read. Save it as “CSV UTF-8”.": _(
        "The spreadsheet is too large to be read. Save it as “CSV UTF-8”."
    ),
    "The file unpacks to <size> MiB. It can have at most <most>.": _(
        "The spreadsheet is too large to be read. Save it as “CSV UTF-8”."
    ),
}
# Variable parts that name what only an app knows → the import path of the function that says them in the active
# language, which is loaded on use. Apps add theirs in `ready`.
NAMED: dict[str, str] = {}
_NAME = re.compile(r"<(\w+)>")
_COUNTED = {"least", "most", "count"}  # the variable parts that are numbers, shown in groups of digits
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"


def in_words(sentence: str) -> str:
    """The sentence in the pages' wording and the active language."""
    if sentence in _SENTENCES:
        return str(_SENTENCES[sentence])
    for pattern, said in _patterns():
        if found := pattern.fullmatch(sentence):
            named = found.groupdict()
            for name in named.keys() & NAMED.keys():
                named[name] = import_string(NAMED[name])(named[name])
            for name in named.keys() & _COUNTED:
                named[name] = dinars(Decimal(named[name]))
            return str(said) % named
    return sentence


@cache
def _patterns() -> list[tuple[re.Pattern[str], Any]]:
    """The sentences with variable parts as patterns. The longest come first, because they say most."""
    patterns = sorted((each for each in _SENTENCES if _NAME.search(each)), key=len, reverse=True)
    return [(re.compile(_regex(each), re.DOTALL), _SENTENCES[each]) for each in patterns]


def _regex(sentence: str) -> str:
    parts = _NAME.split(sentence)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (f"(?P<{name}>{_NUMBER if name in _COUNTED else '.+'})" for name in parts[1::2])
    return "".join(parts)

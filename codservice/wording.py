"""The rules' sentences about rows, forms and searches, in the words and the language of the person who reads them.

Rules speak English, as the API does. It is also what is stored with a refused row, for readers of any language and
for other versions of ours. Each sentence that a row, form or search can meet is in the table here with the pages'
wording for it. Any other is shown as it is.
"""

import re
from decimal import Decimal
from functools import cache

from django.utils.module_loading import import_string
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from codservice.i18n_tags import dinars

# The rules' sentence, with names for its variable parts → the pages' wording, with the same names.
_SENTENCES = {
    # Those that the pages say as the rules do.
    **{
        each: each
        for each in (
            _("Must not be empty."),
            _("Must have at most %(most)s characters."),
            _("Must be from %(least)s to %(most)s."),
            _("Must have at most two decimal places."),
            _("Must start with https://."),
            _("Must not contain a user name or password."),
            _("Must have at most %(most)s characters once its special characters are encoded."),
            _("The stop desk column contradicts this. Correct one of the two."),
            _("Line %(line)s of the same order has a different value."),
            _(
                "The total less the shipping fee gives no price for each piece in whole centimes. Correct them, or "
                "enter the price."
            ),
            _(
                "Enter the order number in each of the order's rows: in a file of refused rows, nothing else shows "
                "that they belong together."
            ),
            _("The order with this number already exists, with another phone. Correct it, or enter another number."),
            _("The order with this id already exists, with another phone. Correct it, or leave the id out."),
            _("The order with this number already exists, without this row. Correct it, or enter another number."),
            _(
                "The order with this number already exists, with fewer lines than in the file. Correct it, or enter "
                "another number."
            ),
            _("Line %(line)s has the same SKU."),
            _("The row has more cells than the first line has columns. Put text with commas in quotes."),
            _("We could not continue with this file. What came before is done, as counted here."),
            _("The file was sent again: the newer one takes its place."),
            _("The file is empty. Its first line must name the columns."),
            _("The file has no rows below its first line."),
            _("The file has more than %(most)s rows. Send it in parts."),
            _("The file has %(count)s columns. It can have at most %(most)s."),
            _("The file has too much text in row %(row)s."),
        )
    },
    # What the version before stored.
    "We could not continue with this file. What is counted here was imported.": _(
        "We could not continue with this file. What came before is done, as counted here."
    ),
    # Values.
    "This field is required.": _("This is missing."),
    "This field is required without product_id.": _("This is missing."),
    "Must be a string.": _("Must be text."),
    "Must not contain control characters or broken Unicode.": _(
        "Has characters that cannot be stored. Remove or replace them."
    ),
    "Must be an integer, as a JSON number without a point.": _("Must be a whole number."),
    "Must be an integer from %(least)s to %(most)s.": _("Must be a whole number from %(least)s to %(most)s."),
    "Must be a number, or a string of digits with at most one point.": _("Must be an amount such as 400 or 400.50."),
    "Must be a UUID.": _("Must be the id of a product."),
    "Must be a complete URL, such as https://shop.example/robe.jpg.": _(
        "Must be a complete address, such as https://shop.example/robe.jpg."
    ),
    "Must be true or false, yes or no, oui or non, 1 or 0.": _("Must be yes or no."),
    "Must have at most %(most)s keys.": _("A line can have at most %(most)s details."),
    "A key cannot be used. %(why)s": _(
        "The name of a detail cannot be used: it is empty, too long or has characters that cannot be stored."
    ),
    "Two keys are the same text: %(text)s": _("Two details of a line have the same name: %(text)s"),
    "Must be an object with string values.": _('Must be a JSON object with texts, such as {"taille": "M"}.'),
    # Orders.
    "Must be home or desk.": _("Must be “home” or “desk” (a stop desk)."),
    "Must be an Algerian phone number, such as 0550 12 34 56 or +213550123456.": _(
        "Must be an Algerian phone number, such as 0550 12 34 56."
    ),
    "Must have 1 to %(most)s entries.": _("An order can have at most %(most)s lines."),
    '"%(text)s" is not the code or name of a wilaya.': _("“%(text)s” is not a wilaya."),
    '"%(text)s" is not the code or name of a wilaya. Did you mean %(names)s?': _(
        "“%(text)s” is not a wilaya. Did you mean %(names)s?"
    ),
    '"%(text)s" may be more than one name of a wilaya. Did you mean %(names)s?': _(
        "“%(text)s” could be several wilayas. Did you mean %(names)s?"
    ),
    '"%(text)s" is not the code or name of a commune of %(wilaya)s.': _("“%(text)s” is not a commune of %(wilaya)s."),
    '"%(text)s" is not the code or name of a commune of %(wilaya)s. Did you mean %(names)s?': _(
        "“%(text)s” is not a commune of %(wilaya)s. Did you mean %(names)s?"
    ),
    '"%(text)s" is not the code or name of a commune of %(wilaya)s. It lies in %(names)s.': _(
        "“%(text)s” is not a commune of %(wilaya)s. It lies in %(names)s."
    ),
    '"%(text)s" may be more than one name of a commune of %(wilaya)s. Did you mean %(names)s?': _(
        "“%(text)s” could be several communes of %(wilaya)s. Did you mean %(names)s?"
    ),
    "No product of this account has this id.": _("None of your products has this id."),
    "Another order of this account already has it.": _("You already have an order with this number."),
    "Line %(line)s has the same external_id, with other orders in between. Put an order's rows next to each other.": _(
        "Line %(line)s has the same order number, with other orders in between. Put an order's rows next to each other."
    ),
    "Is a long number that a spreadsheet has shortened. Format the column as text, and enter the numbers again.": _(
        "The spreadsheet has shortened this long number. Format the column as text, and enter the numbers again."
    ),
    "Is a date that a spreadsheet made of something else. Format the column as text, and enter the values again.": _(
        "The spreadsheet has made a date of this. Format the column as text, and enter the values again."
    ),
    "Is a number that a spreadsheet has shortened, and its last digits are lost. Format the column as text, "
    "and enter the numbers again.": _(
        "The spreadsheet has shortened this number, and its last digits are lost. Format the column as text, and "
        "enter the numbers again."
    ),
    "May be a line of the order above. If so, enter that order's number here. If not, enter a number of its own.": _(
        "This may be a line of the order above. If so, enter that order's number here. If not, enter a number of its "
        "own."
    ),
    "May be a line of the order above. If so, enter that order's number here. If not, enter the customer.": _(
        "This may be a line of the order above. If so, enter that order's number here. If not, enter the customer."
    ),
    "Is a total of the rows above, not an order.": _("This looks like a total of the rows above, not an order."),
    "May be a total of the rows above. Leave it out or, if it is a product, give it a longer name.": _(
        "This may be a total of the rows above. Leave it out or, if it is a product, give it a longer name."
    ),
    "One of the order's rows may be a total or a product. If it is a total, leave it out. If it is a "
    "product, enter the order number in each of the rows.": _(
        "One of this order's rows may be a total or a product. If it is a total, leave it out. If it is a product, "
        "enter the order number in each of the rows."
    ),
    "“%(text)s” is not a status. Use one or several of: %(known)s.": _("“%(text)s” is not a status."),
    # Products.
    "Each SKU: %(why)s": _("A SKU cannot be used: it is empty, too long or has characters that cannot be stored."),
    "Must have at most %(most)s SKUs.": _("Enter at most %(most)s SKUs at once."),
    "There is no product with this SKU yet, and a new product needs this.": _(
        "You have no product with this SKU yet, and a new product needs this."
    ),
    # Rows and files.
    "See line %(line)s.": _("This row is fine. See line %(line)s of the same order."),
    "Is an error from the spreadsheet's formula. Correct it, or enter the value.": _(
        "This formula gives an error or no result. Correct it in the spreadsheet and save it there, or enter the value."
    ),
    "Its letters were lost when the file was saved. Save the original as XLSX or as CSV UTF-8.": _(
        "Its letters were lost when the file was saved. Save the original as XLSX or as CSV UTF-8."
    ),
    "The file has an empty sheet in front, %(sheet)s. Its first line must name the columns.": _(
        "The first visible sheet of the file, %(sheet)s, is empty. Its first line must name the columns."
    ),
    "The file has a row at line %(line)s that does not end. Is a quotation mark left open?": _(
        "The row at line %(line)s of the file does not end. Is a quotation mark left open?"
    ),
    "The file has more than %(most)s MiB of text. Send it in parts.": _(
        "The file has more than %(most)s MB of text. Send it in parts."
    ),
    "The file is not UTF-8. Save it as “CSV UTF-8”.": _(
        "The file's characters cannot be read. Save it as “CSV UTF-8”, or as XLSX."
    ),
    "The file is not a CSV file: line %(line)s: %(why)s.": _(
        "The file is not a CSV file: the row at line %(line)s cannot be read. Is a quotation mark in it not doubled, "
        "or not closed?"
    ),
    "The file is not a spreadsheet that we can read: %(why)s.": _(
        "The file is not a spreadsheet that we can read. Open it in a spreadsheet program, and save it as XLSX, "
        "without a password."
    ),
    "The file is too large a spreadsheet to be read. Save it as “CSV UTF-8”.": _(
        "The spreadsheet is too large to be read. Save it as “CSV UTF-8”."
    ),
    "The file unpacks to %(size)s MiB. It can have at most %(most)s.": _(
        "The spreadsheet is too large to be read. Save it as “CSV UTF-8”."
    ),
}
# Variable parts that name what only an app knows → the import path of the function that says them in the active
# language, which is loaded on use. Apps add theirs in `ready`.
NAMED: dict[str, str] = {}
_NAME = re.compile(r"%\((\w+)\)s")
_COUNTED = {"least", "most", "count"}  # the variable parts that are numbers, shown in groups of digits
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"


def in_words(sentence: str) -> str:
    """The sentence in the pages' wording and the active language."""
    if sentence in _SENTENCES:
        return gettext(_SENTENCES[sentence])
    for pattern, said in _patterns():
        if found := pattern.fullmatch(sentence):
            named = found.groupdict()
            for name in named.keys() & NAMED.keys():
                named[name] = import_string(NAMED[name])(named[name])
            for name in named.keys() & _COUNTED:
                named[name] = dinars(Decimal(named[name]))
            return gettext(said) % named
    return sentence


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The sentences with variable parts as patterns. The longest come first, because they say most."""
    patterns = sorted(filter(_NAME.search, _SENTENCES), key=len, reverse=True)
    return [(re.compile(_regex(each), re.DOTALL), _SENTENCES[each]) for each in patterns]


def _regex(sentence: str) -> str:
    parts = _NAME.split(sentence)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (f"(?P<{name}>{_NUMBER if name in _COUNTED else '.+'})" for name in parts[1::2])
    return "".join(parts)

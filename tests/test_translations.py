"""The catalogs have every string of ours, translated with the same placeholders, and are compiled as they are."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polib
import pytest
from django.contrib.auth.password_validation import password_validators_help_texts, validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.utils import formats, timezone, translation

from agents import ages
from agents.templatetags.console_tags import duration, near
from codservice import django_words, wording
from codservice.accounts.models import SecurityEntry, User
from codservice.accounts.security_log import Action
from codservice.days import ALGIERS
from codservice.i18n_tags import moment
from orders import lifecycle, regions
from orders.forms import no_commune
from orders.templatetags.orders import age
from tests.harness.processes import CHECKOUT

LANGUAGES = ("fr", "ar_DZ")
SOURCES = ("agents", "codservice", "inventory", "orders", "docs", "templates", "webhooks", "manage.py", "Makefile")
# Guides for people who work on the pages.
PAGES = ("agents", "supervisors", "without-a-developer", "products", "team", "test-mode")
GUIDES = [path for name in PAGES for path in sorted(CHECKOUT.glob(f"docs/**/{name}.md"))]


def catalog(root: Path, language: str) -> Path:
    return root / "codservice/locale" / language / "LC_MESSAGES/django.po"


def strings(entries: polib.POFile) -> set[tuple[str, str, str]]:
    return {(entry.msgctxt or "", entry.msgid, entry.msgid_plural) for entry in entries if not entry.obsolete}


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with its catalogs freshly updated, as by `make messages`."""
    assert shutil.which("xgettext"), (
        "xgettext is missing; install the package gettext, the translations are read with it"
    )
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.mo"))
        else:
            shutil.copy(source, copy / name)
    recipe = ["make", "--silent", "extract", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(recipe, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return copy


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_in_the_catalog_and_nothing_else(language: str, extracted: Path) -> None:
    fresh, kept = (strings(polib.pofile(catalog(root, language))) for root in (extracted, CHECKOUT))
    assert sorted(fresh - kept) == [], "run `make messages` and translate these"
    assert sorted(kept - fresh) == [], "run `make messages`: these are no longer in use"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_translated_and_sure(language: str) -> None:
    entries = polib.pofile(catalog(CHECKOUT, language))
    assert [entry.msgid for entry in entries.untranslated_entries()] == []
    assert [entry.msgid for entry in entries.fuzzy_entries()] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_placeholders_of_their_strings(language: str) -> None:
    """`%(name)s` and `{name}`. A plural form for one, two or none may leave the number out."""

    def placeholders(text: str) -> Counter[str]:
        return Counter(re.findall(r"%\(\w+\)[sd]|\{\w*\}", text))

    wrong = []
    for entry in polib.pofile(catalog(CHECKOUT, language)):
        wanted = placeholders(entry.msgid_plural or entry.msgid)
        for form in entry.msgstr_plural.values() if entry.msgid_plural else [entry.msgstr]:
            extra, missing = placeholders(form) - wanted, wanted - placeholders(form)
            if extra or (missing and not entry.msgid_plural):
                wrong.append((entry.msgid, form))
    assert wrong == []


def test_who_is_refused_reads_it_in_their_language() -> None:
    with translation.override("fr"):
        refused = lifecycle.Changed()
    assert refused.message == str(refused) == refused.by_field("status")["status"][0]
    assert refused.message.startswith("La commande a été modifiée")


def test_the_comma_of_a_date_with_its_time_is_that_of_the_language() -> None:
    """Django writes the signs between the parts as they are, so the format itself is translated."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in (CHECKOUT / "templates").rglob("*.html")}
    assert [name for name, page in pages.items() if re.search(r'date:"[^"]*, ', page)] == []
    at = datetime(2026, 11, 21, 13, 5, tzinfo=UTC)
    with timezone.override(ALGIERS), translation.override("ar-dz"):
        assert (moment(at), near(at)) == ("21 نوفمبر 2026، 14:05", "21 نوفمبر، 14:05")


@pytest.mark.parametrize(("language", "comma"), [("fr", ", "), ("ar-dz", "، ")])
def test_the_comma_of_a_list_is_that_of_the_language(language: str, comma: str) -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in (CHECKOUT / "templates").rglob("*.html")}
    assert [name for name, page in pages.items() if 'join:", "' in page] == []
    with translation.override(language):
        refused = '"Misla" is not the code or name of a wilaya. Did you mean Béjaïa, Mila or M\'Sila?'
        names = {"fr": "Béjaïa, Mila, M'Sila", "ar-dz": "بجاية، ميلة، المسيلة"}[language]
        assert names in wording.in_words(refused)
        unsure = '"Sidi" is not the code or name of a commune of Chlef. Did you mean Larbaa or Ténès?'
        chlef, tenes = {"fr": ("Chlef", "Ténès"), "ar-dz": ("الشلف", "تنس")}[language]
        assert f"Larbaa{comma}{tenes}" in wording.in_words(unsure)
        assert chlef in wording.in_words(unsure)
        elsewhere = '"El Eulma" is not the code or name of a commune of Chlef. It lies in Sétif or Annaba.'
        names = {"fr": "Sétif, Annaba", "ar-dz": "سطيف، عنابة"}[language]
        assert names in wording.in_words(elsewhere)
        assert chlef in wording.in_words(elsewhere)
        assert names in no_commune("x", regions.NotFound("", elsewhere=(regions.wilaya("19"), regions.wilaya("23"))))
        near = (regions.wilaya("43"), regions.wilaya("28"))
        names = {"fr": "Mila, M'Sila", "ar-dz": "ميلة، المسيلة"}[language]
        assert names in no_commune("Misla", regions.NotFound("", near))


def test_words_of_django_are_ours_where_its_catalogs_have_slips() -> None:
    day = datetime(2027, 7, 5, tzinfo=UTC)
    with translation.override("ar-dz"):
        assert [formats.date_format(day, wanted) for wanted in ("j F Y", "j N Y", "E")] == [
            "5 جويلية 2027", "5 جويلية 2027", "جويلية",
        ]  # fmt: skip
        assert [str(word) for word in django_words.WORDS if re.search("مشابة|بكم |كلمة مرور ال", str(word))] == []
        assert password_validators_help_texts() == [
            "لا يمكن أن تشبه كلمة مرورك معلوماتك الشخصية الأخرى كثيرا.",
            "يجب ألا تقل كلمة مرورك عن 8 أحرف.",
            "لا يمكن أن تكون كلمة مرورك من الكلمات الشائعة.",
            "لا يمكن أن تتكون كلمة مرورك من أرقام فقط.",
        ]
        signs = "حروف وأرقام والعلامات @ و. و+ و- و_ فقط."
        for field, told in (
            (User.username.field.help_text, f"مطلوب. 150 حرفا على الأكثر: {signs}"),
            (UnicodeUsernameValidator.message, f"أدخل اسم مستخدم صالحا: {signs}"),
        ):
            assert str(field) == told
        below = ("Please correct the error below.", "Please correct the errors below.")
        assert {translation.ngettext(*below, count) for count in (1, 2, 3, 11)} == {"الرجاء تصحيح ما يلي."}
        with pytest.raises(ValidationError, match="يجب أن تحتوي على 8 أحرف على الأقل"):
            validate_password("mkq7xt")


def test_two_in_arabic_is_said_once_and_as_it_stands_behind_another_word() -> None:
    """A time always follows since, after, from, to or under, so the dual is in the genitive."""
    now = timezone.now()
    with translation.override("ar-dz"):
        assert age(now - timedelta(hours=2, minutes=5)) == "ساعتين"
        assert age(now - timedelta(hours=1, minutes=5)) == "ساعة\xa0واحدة"
        assert duration(timedelta(minutes=2)) == "دقيقتين"
        assert ages.names()[1:4] == ["من 4 سا إلى يوم واحد", "من يوم واحد إلى يومين", "من يومين إلى 3 أيام"]


def test_no_line_of_french_begins_with_the_sign_that_ends_a_word_of_the_line_before() -> None:
    wrong = []
    for entry in polib.pofile(catalog(CHECKOUT, "fr")):
        forms = entry.msgstr_plural.values() if entry.msgid_plural else [entry.msgstr]
        wrong += [form for form in forms if re.search(r"[ \xa0][:;?!»](?!\w)|«[ \xa0]", form)]
    assert wrong == [], "a narrow no-break space (U+202F) stands there"
    for path in (CHECKOUT / "docs/fr").glob("*.md"):  # typesetting puts it there within a line, not between two
        prose = re.sub(r"(?s)```.*?```", "", path.read_text(encoding="utf-8"))
        wrong += [(path.name, sign) for sign in re.findall(r"(?m)^ *(?:[:;?»]|!(?!\[)).*|.*«$", prose)]
    assert wrong == []


def test_in_french_no_name_follows_a_word_that_would_be_shortened_before_a_vowel() -> None:
    """`La commande de Amina` would have to be `d’Amina`."""
    wrong = []
    for entry in polib.pofile(catalog(CHECKOUT, "fr")):
        forms = entry.msgstr_plural.values() if entry.msgid_plural else [entry.msgstr]
        wrong += [
            form for form in forms if re.search(r"(?i)\b(?:de|la|le|que) %\((?:name|product|wilaya|email|who)\)", form)
        ]
    assert wrong == []


def test_in_arabic_the_signs_of_a_latin_word_stay_on_their_side() -> None:
    """`https://` is shown as `//:https`, and `.csv` as `csv.`, where nothing says that the signs are the word's;
    likewise `0550 12 34 56` as `56 34 12 0550`."""
    wrong = []
    for entry in polib.pofile(catalog(CHECKOUT, "ar_DZ")):
        forms = entry.msgstr_plural.values() if entry.msgid_plural else [entry.msgstr]
        word, number = r"[a-z]://(?![\w\u200e])|(?<![\w\u200e.])\.[a-z]", r"(?<![\d\u200e])(?<!\d[ -])\d+[ -]\d"
        wrong += [form for form in forms if re.search(f"{word}|{number}", form)]
    assert wrong == [], "a left-to-right mark (U+200E) stands there"


# One thing has one word on pages, in mails and in the manual. These are never written, for the reason given.
ELSEWHERE = {
    "fr": {
        r"\w'\w": "an apostrophe is ’",
        r"clés? d[’']API": "clé API",
        r"importation": "import",
        r"[Pp]oints? de retrait": "stop desk, as couriers call it",
        r"(?<![eE]-)\bmails?\b|[Cc]ourriel": "e-mail",
    },
    "ar_DZ": {
        r"\u064b": "one spelling: أولا, and neither أولاً nor أولًا",
        r"صفحة الطلب(?!\w)": "الطلبية",
        r"الإثنين": "الاثنين",
        r"استخد": "استعمال",
        r"ستور|ستيراد": "تسجيل: orders are no goods from abroad",
        r"[ال]لبتّ?(?!\w)": "حسم",
        r"نقرة": "ضغطة",
        "دون رد": "بلا رد",
        "العناوين": "أسماء الأعمدة: العنوان is the column of addresses",
        r"وصلت(?!ك)": "سُجّلت: an order that has arrived is a delivered one",
        r"%\((name|holder)\)s (لا )?ي": "a verb that fits women too, such as عند %(name)s",
    },
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_thing_has_one_word(language: str) -> None:
    texts = {}
    for entry in polib.pofile(catalog(CHECKOUT, language)):
        for form in entry.msgstr_plural.values() if entry.msgid_plural else [entry.msgstr]:
            texts[form] = entry.msgid
    pictures = (CHECKOUT / "docs/images").glob(f"*.{language[:2]}.svg")
    for path in (
        *(CHECKOUT / "docs" / language[:2]).glob("*.md"),
        *pictures,
    ):  # these are typed with the plain apostrophe
        texts[re.sub(r"(?s)```.*?```|`[^`]*`|\(.*?\)", "", path.read_text(encoding="utf-8")).replace("'", "’")] = (
            path.name
        )
    wrong = [
        (why, said)
        for text, said in texts.items()
        for word, why in ELSEWHERE[language].items()
        if re.search(word, text)
    ]
    assert wrong == []


def test_in_arabic_an_order_is_no_request() -> None:
    orders = [entry for entry in polib.pofile(catalog(CHECKOUT, "ar_DZ")) if re.search(r"(?i)\border\b", entry.msgid)]
    assert [each.msgstr for each in orders if re.search(r"الطلب(?!\w)", each.msgstr)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_sentence_names_is_called_as_it_is_on_its_page(language: str) -> None:
    """“Agents”, “Recover…”: readers of the sentence look for that name."""
    entries = polib.pofile(catalog(CHECKOUT, language))
    called = {entry.msgid: entry.msgstr for entry in entries if not entry.msgctxt}
    wrong = [
        (entry.msgid, called[name])
        for entry in entries
        for name in re.findall(r"“([^”]+)”", entry.msgid)
        if name in called and called[name] not in entry.msgstr
    ]
    assert wrong == []


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.relative_to(CHECKOUT / "docs").as_posix())
def test_what_a_guide_names_is_called_as_it_is_on_its_page(path: Path) -> None:
    """Words in italics are what people look for on a page, or write into a cell of their file."""
    texts = {"à domicile", "desk", "home", "bureau", "point relais", "stop desk", "المنزل", "Total", "المجموع"}
    texts |= {"oui", "yes", "نعم", "non", "no", "لا"}
    language = {"fr": "fr", "ar": "ar_DZ"}.get(path.parent.name)
    for entry in polib.pofile(catalog(CHECKOUT, language or "fr")):
        said = {entry.msgstr, *entry.msgstr_plural.values()} if language else {entry.msgid, entry.msgid_plural}
        texts |= {text.replace("’", "'").replace("\u202f", " ") for text in said}
    guide = re.sub(r"`[^`]*`", "", path.read_text(encoding="utf-8"))
    named = [re.sub(r"\s+", " ", name) for name in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", guide)]
    assert named
    assert [name for name in named if name not in texts] == []


@pytest.mark.parametrize("language", ["en", "fr", "ar-dz"])
def test_merchants_without_a_developer_read_what_the_menu_under_their_name_has(language: str) -> None:
    template = (CHECKOUT / "templates/base.html").read_text(encoding="utf-8")
    menu = template.partition('<details class="menu">')[2].partition("</details>")[0]
    labels = set(re.findall(r"""{% translate ["'](.+?)["'] %}""", menu)) - {"Console", "Sign out"}
    folder = "" if language == "en" else language[:2]
    guide = (CHECKOUT / "docs" / folder / "without-a-developer.md").read_text(encoding="utf-8")
    with translation.override(language):
        called = {translation.gettext(label).replace("’", "'") for label in labels}

    assert {"Call script", "Shipping fees", "Calling rules"} < labels
    named = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", re.sub(r"\s+", " ", guide))
    assert called - set(named) == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalog_is_that_of_the_source(language: str) -> None:
    source = catalog(CHECKOUT, language)
    compiled = polib.mofile(source.with_suffix(".mo"))

    def translations(entries: list[polib.MOEntry] | list[polib.POEntry]) -> dict:
        return {(e.msgctxt, e.msgid, e.msgid_plural): e.msgstr_plural or e.msgstr for e in entries}

    assert translations(compiled) == translations(polib.pofile(source)), "run `make messages`"


def test_no_month_is_cut_to_three_letters() -> None:
    """In French `M` writes "Jui" for June, with a capital, and "Jul" for July; `N` shortens as each language does."""
    rooms = ("agents", "codservice", "inventory", "orders", "templates", "webhooks")
    files = [path for room in rooms for kind in ("py", "html", "txt") for path in (CHECKOUT / room).rglob(f"*.{kind}")]
    assert [path.name for path in files if re.search(r"""["'][^"'%]*\bj M\b""", path.read_text())] == []


def test_what_stands_between_a_name_and_what_is_said_of_it_is_that_of_the_language() -> None:
    """A colon after a placeholder of a page is translated like one within a sentence."""
    wrong = []
    for path in (CHECKOUT / "templates").rglob("*.html"):
        page = re.sub(r"(?s){% blocktranslate.*?{% endblocktranslate %}", "", path.read_text(encoding="utf-8"))
        if path.parent.name != "docs" and re.search(r"(?:\}\}|%\}|</bdi>|</strong>): ", page):
            wrong.append(path.name)
    assert wrong == []
    with translation.override("fr"):
        assert translation.gettext(":") == "\u202f:"
        title = str(SecurityEntry(action=Action.ROLE, target="samira: +Supervisors"))
        assert title == "a changé un rôle\u202f: samira: +Superviseurs"

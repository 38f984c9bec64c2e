"""What pages keep of themselves: the same for everybody in one language, and nothing of anybody's own page."""

import re
from collections.abc import Callable

import pytest
from django.template import Context, Template
from django.templatetags.i18n import TranslateNode
from django.utils import translation
from django.utils.safestring import SafeString

from codservice.accounts.models import Account, User
from codservice.form_fields import LongSelect
from codservice.i18n_tags import Once
from tests.agents.screens import Screen, take
from tests.factories import make_order
from tests.harness.client import browser_of


def written(source: str, **context: object) -> Callable[..., str]:
    page = Template("{% load i18n %}" + source)
    return lambda **now: page.render(Context({**context, **now}))


def test_it_is_written_once_for_each_language() -> None:
    page = written("{% once label %}{{ label }} {% translate 'Cancel…' %}{% endonce %}", label="first")
    english = page()
    with translation.override("fr"):
        french = page()
    assert page(label="second") == english == "first Cancel…"
    assert french == "first Annuler…"


def test_it_sees_nothing_of_the_page_that_it_does_not_name() -> None:
    assert written("{% once %}[{{ customer }}]{% endonce %}", customer="Amina")() == "[]"


def test_it_is_like_any_other_part_where_that_is_said() -> None:
    page = written("{% once unless is_sent %}[{{ note }}]{% endonce %}", note="Call at noon")
    assert page(is_sent=True) == "[Call at noon]"
    assert page(is_sent=False) == "[]"
    assert page(is_sent=True, note="Busy") == "[Busy]"


def test_a_text_that_is_written_out_is_translated_once_for_each_language(monkeypatch: pytest.MonkeyPatch) -> None:
    page = written(
        "{% translate '<b>Name</b>' %} {% translate 'Name' %} {% translate said %} {% translate 'Name' as it %}{{ it }}"
    )
    for language, name in (("fr", "Nom"), ("en", "Name"), ("ar-dz", "الاسم")):
        with translation.override(language):
            assert page(said="Name") == page(said="Name") == f"<b>Name</b> {name} {name} {name}"
    looked: list[str] = []
    monkeypatch.setattr(TranslateNode, "render", lambda node, context: looked.append(language) or "")
    for language in ("fr", "en"):
        with translation.override(language):
            page(said="Name")
    assert looked == ["fr", "fr", "en", "en"]  # `said` and `it`


@pytest.mark.parametrize("language", ["en", "fr", "ar-dz"])
def test_a_call_screen_is_as_if_nothing_had_been_kept(
    language: str, alice: Account, agent: User, colleague: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def screens() -> list[str]:
        texts = []
        for order, person in orders.items():
            with translation.override(None):
                browser = browser_of(person, headers={"accept-language": language})
                texts.append(take(browser, order).text)
        tokens = r'(?<=name="csrfmiddlewaretoken" value=")\w+|(?<=name="note_id" value=")[\w-]+|seal" value="[^"]*'
        times = r'name="shown_at" value="[^"]*'
        return [re.sub(f'{tokens}|{times}|<small>[^<]*</small>|data-lease="\\d+', "", text) for text in texts]

    orders = {make_order(alice, phone=f"055000000{n}"): person for n, person in enumerate((agent, colleague))}
    screens()  # fills what is kept, from somebody's page
    kept = screens()
    monkeypatch.setattr(Once, "render", lambda once, context: once.nodelist.render(context))
    assert kept == screens()
    assert agent.display_name not in re.findall(r'<select name="to".*?</select>', kept[0], re.S)[0]


def test_what_was_typed_is_on_the_screen_that_comes_back(agent: User, alice: Account) -> None:
    screen = take(browser_of(agent), make_order(alice))
    answer = screen.press("skipped", note="Typed <b>here</b>")
    assert answer.status_code == 422
    assert "Typed &lt;b&gt;here&lt;/b&gt;" in answer.content.decode()
    assert "Typed" not in Screen(screen.browser, screen.address).text


def test_a_long_select_is_written_anew_when_its_choices_change() -> None:
    select = LongSelect(choices=[("", "Nobody"), (1, "Amina")])
    first = select.render("to", 1)
    assert 'value="1" selected>Amina' in first
    assert " selected" not in select.render("to", 2)
    for label in (SafeString("<Nadia>"), "<Nadia>"):
        select.choices = [("", "Nobody"), (1, label)]
        assert "&lt;Nadia&gt;" in select.render("to", 1)

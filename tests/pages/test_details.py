"""What can be unfolded shows that it can."""

from collections.abc import Callable

import pytest

from agents.desk import claims
from agents.models import CallingRules
from codservice.accounts.models import Account
from tests import factories
from tests.harness.browser import Visit

pytestmark = pytest.mark.django_db(transaction=True)
# All but those shown as buttons or menus, which have signs of their own. A triangle is drawn only for a list item.
UNMARKED = """() => [...document.querySelectorAll("details:not(.menu) > summary:not(.button)")]
    .filter(e => getComputedStyle(e).display !== "list-item").map(e => e.textContent)"""


def test_a_triangle_says_that_there_is_more(visit: Callable[..., Visit], alice: Account) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour")
    order = factories.make_order(alice)
    supervisor = factories.AgentFactory(role="Supervisors")
    call = f"/console/desk/{claims.take(order.id, agent=supervisor)}/"
    visitor = visit()
    visitor.page.goto("/account/login")
    assert visitor.page.locator("details:not(.menu) > summary:not(.button)").count()
    assert visitor.page.evaluate(UNMARKED) == []
    page = visitor.sign_in(supervisor.username, "/console/login/")
    for path in (call, f"{call}edit/{order.id}/", "/console/figures/", "/console/day/", "/console/periods/"):
        page.goto(path)
        assert page.locator("details:not(.menu) > summary:not(.button)").count()
        assert page.evaluate(UNMARKED) == []

"""Which merchants an agent serves: of those that a supervisor chose (or of all), the ones whose customers are called in
one of the agent's languages. The statements that serve, count and find the next call include its SQL.

No order says what its customer speaks. What is known are the languages of a merchant's call scripts: an agent must
speak one of them. A merchant without a script may be served in any language.

A promised call is made by the agent who promised it or whom a supervisor gave it to, whoever the merchant is. One call
is about all of a customer's pending orders, of every merchant.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from agents.models import Assignment
from codservice import postgresql
from codservice.accounts import security_log
from codservice.accounts.models import Account, User
from codservice.accounts.security_log import Action
from codservice.accounts.staff import AGENTS
from codservice.bidi import unturned
from codservice.errors import Refused
from codservice.i18n_tags import listed

MOST_UNSERVED = 20  # merchants named on a page


class NotServed(Refused):
    """The agent does not serve this merchant, and whoever asks is no supervisor."""

    code, status = "merchant_not_served", 409


# Whether the agent of the Assignment `g` serves the account `a`. Without a row, `g` is null and the agent serves all.
_SERVES = """(
    g.agent_id IS NULL OR (cardinality(g.merchants) = 0 OR a.id = ANY(g.merchants))
        AND (cardinality(g.languages) = 0 OR NOT EXISTS (
            SELECT FROM agents_callingrules r WHERE r.account_id = a.id AND (r.script_fr <> '' OR r.script_ar <> '')
                AND NOT (r.script_fr <> '' AND 'fr' = ANY(g.languages) OR r.script_ar <> '' AND 'ar' = ANY(g.languages))
        ))
)"""
_OF_AGENT = "FROM accounts_account a LEFT JOIN agents_assignment g ON g.agent_id = %(agent)s"
_UNSERVED = f"SELECT a.name {_OF_AGENT} WHERE a.id = ANY(%(accounts)s) AND NOT {_SERVES} ORDER BY a.name, a.id"
# Steps of a statement: the accounts that the agent serves and, after `hours.OPEN`, those that can be called now.
MINE = f"mine AS MATERIALIZED (SELECT a.id AS account_id {_OF_AGENT} WHERE {_SERVES})"
SERVED = "served AS MATERIALIZED (SELECT account_id FROM open WHERE account_id IN (SELECT account_id FROM mine))"
SOMEBODY_IS_SERVED = "EXISTS (SELECT FROM served)"
# About an order `o`. Not joins, for the reason given at `hours.IS_OPEN`.
IS_SERVED = "(o.account_id IN (SELECT account_id FROM served)) IS TRUE"
IS_MINE = "(o.account_id IN (SELECT account_id FROM mine)) IS TRUE"
IS_THEIRS = "(o.callback_agent_id = %(agent)s OR o.account_id IN (SELECT account_id FROM mine)) IS TRUE"


def check(agent: User, account_ids: Iterable[UUID], *, by: User) -> None:
    """Raise NotServed when the agent does not serve one of the merchants and `by`, who gives them the customer, is no
    supervisor.

    A supervisor may do so; `warning` is what they are told.
    """
    if not by.has_perm("orders.supervise_order") and (said := warning(agent, account_ids)):
        raise NotServed(said)


def check_customer(agent: User, account_ids: Collection[UUID]) -> None:
    """Raise NotServed when the agent is not a supervisor and serves none of the merchants of a customer's pending
    orders.

    Serving one is enough, since the call is about all of them.
    """
    if not agent.has_perm("orders.supervise_order"):
        names = _unserved(agent, account_ids)
        if len(names) == len(account_ids):
            raise NotServed(_in_words(agent, names))


def warning(agent: User, account_ids: Iterable[UUID]) -> str:
    """A sentence naming the given merchants that the agent does not serve; empty when they serve all."""
    names = _unserved(agent, account_ids)
    return _in_words(agent, names) if names else ""


def _unserved(agent: User, account_ids: Iterable[UUID]) -> list[str]:
    return [name for (name,) in postgresql.rows(_UNSERVED, {"agent": agent.pk, "accounts": list(account_ids)})]


def _in_words(agent: User, names: Iterable[str]) -> str:
    said = {"name": unturned(agent.display_name), "merchants": listed(map(unturned, names))}
    return _("%(name)s is not set to serve %(merchants)s.") % said


# Looked for only when there are rules at all. An agent who serves everybody is found early and ends the search.
_NOBODYS = f"""
WITH agents AS MATERIALIZED (
    SELECT u.id FROM accounts_user u
    WHERE u.is_active AND u.is_staff AND EXISTS (
        SELECT FROM accounts_user_groups m JOIN auth_group n ON n.id = m.group_id
        WHERE m.user_id = u.id AND n.name = %(group)s
    )
), unserved AS MATERIALIZED (
    SELECT a.id, a.name FROM accounts_account a
    WHERE a.live_id IS NULL AND EXISTS (SELECT FROM agents_assignment) AND NOT EXISTS (
        SELECT FROM agents LEFT JOIN agents_assignment g ON g.agent_id = agents.id WHERE {_SERVES}
    )
)
SELECT unserved.id, unserved.name, waiting.count FROM unserved CROSS JOIN LATERAL (
    SELECT count(*) FROM (
        SELECT FROM orders_order o
        WHERE o.account_id = unserved.id AND o.status = 'pending_confirmation'
            AND o.call_state IN ('new', 'retry', 'callback')
        LIMIT %(counted_to)s
    ) AS counted
) AS waiting
WHERE waiting.count > 0 ORDER BY unserved.name, unserved.id LIMIT %(most)s
"""  # noqa: S608  (our own condition)


class Nobodys(NamedTuple):
    """A merchant whom no agent serves, and how many of its orders wait for a call, counted up to COUNTED_TO."""

    account_id: UUID
    name: str
    waiting: int

    COUNTED_TO = 1000


def nobodys() -> list[Nobodys]:
    """The merchants with waiting orders that no agent serves, for supervisors to see. By one statement."""
    values = {"group": AGENTS, "counted_to": Nobodys.COUNTED_TO, "most": MOST_UNSERVED}
    return [Nobodys(*row) for row in postgresql.rows(_NOBODYS, values)]


def of(agent: User) -> Assignment:
    """The agent's assignment; without a row, one that means all."""
    return Assignment.objects.filter(agent=agent).first() or Assignment(agent=agent)


def set_served(
    agent: User, *, merchants: Collection[UUID] | None = None, languages: Collection[str] | None = None
) -> None:
    """Set the merchants and languages that the agent serves. An empty collection means all; None leaves it as it is.

    The change is written to the security log. Customers whom the agent holds stay theirs.
    """
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=agent.pk)  # the row itself comes and goes
        row = of(agent)
        merchants = row.merchants if merchants is None else merchants
        languages = row.languages if languages is None else languages
        changed = set(row.merchants) ^ set(merchants)
        names = dict(Account.objects.filter(id__in=changed).values_list("id", "name"))
        changes = [f"{'+' if id_ in merchants else '-'}{names.get(id_, id_)}" for id_ in sorted(changed)]
        changes += [
            f"{'+' if code in languages else '-'}{code}" for code in sorted(set(row.languages) ^ set(languages))
        ]
        row.merchants, row.languages = sorted(merchants), sorted(languages)
        if row.merchants or row.languages:
            row.save()
        else:
            Assignment.objects.filter(agent=agent).delete()
        if changes:
            target = f"{agent.username}: {', '.join(changes)}"
            security_log.note(Action.ASSIGNED, target=target, target_id=agent.pk)

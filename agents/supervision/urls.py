"""The addresses of the supervisors' pages."""

from django.contrib.admin import AdminSite
from django.urls import URLPattern, path

from agents.supervision import (
    agents_day,
    assignment_page,
    bulk,
    bulk_update,
    claims_page,
    figures,
    people,
    periods,
    review,
    rules,
)

PAGES = [
    ("review/", review.page, "review"),
    ("claims/", claims_page.page, "claims"),
    ("moves/", bulk_update.page, "moves"),
    ("bulk/", bulk.page, "bulk"),
    ("people/", people.page, "people"),
    ("people/new/", people.new, "person_new"),
    ("people/<uuid:user_id>/", people.person, "person"),
    ("people/<uuid:user_id>/day/", agents_day.page, "person_day"),
    ("day/", agents_day.own, "own_day"),
    ("people/<uuid:user_id>/serves/", assignment_page.page, "person_serves"),
    ("rules/", rules.page, "rules"),
    ("periods/", periods.page, "periods"),
    ("rules/<uuid:account_id>/", rules.edit, "rules_of"),
    ("figures/", figures.page, "figures"),
    ("figures/csv/", figures.as_csv, "figures_csv"),
]


def urls(site: AdminSite) -> list[URLPattern]:
    return [path(route, site.admin_view(view), name=name) for route, view, name in PAGES]

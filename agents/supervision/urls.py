"""Where the supervisors' pages are."""

from django.contrib.admin import AdminSite
from django.urls import URLPattern, path

from agents.supervision import figures, holders, moves, people, review, rules

PAGES = [
    ("review/", review.page, "review"),
    ("claims/", holders.page, "claims"),
    ("moves/", moves.page, "moves"),
    ("people/", people.page, "people"),
    ("people/new/", people.new, "person_new"),
    ("people/<uuid:user_id>/", people.person, "person"),
    ("rules/", rules.page, "rules"),
    ("rules/<uuid:account_id>/", rules.edit, "rules_of"),
    ("figures/", figures.page, "figures"),
    ("figures/csv/", figures.as_csv, "figures_csv"),
]


def urls(site: AdminSite) -> list[URLPattern]:
    return [path(route, site.admin_view(view), name=name) for route, view, name in PAGES]

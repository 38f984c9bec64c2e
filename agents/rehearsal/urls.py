from django.urls import path

from agents.rehearsal.views import RehearsalViewSet
from codservice.api import paths  # noqa: F401  (registers <id:…>)

urlpatterns = [
    path(f"orders/<id:id>/{name}", RehearsalViewSet.as_view({"post": action}), name=f"test-order-{name}")
    for action in RehearsalViewSet.scopes
    for name in (action.removesuffix("_order"),)  # no method can be named `return`
]

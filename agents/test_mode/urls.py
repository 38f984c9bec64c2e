from django.urls import path

from agents.test_mode.views import TestModeViewSet

urlpatterns = [
    path(f"orders/<id:id>/{name}", TestModeViewSet.as_view({"post": action}), name=f"test-order-{name}")
    for action in TestModeViewSet.scopes
    for name in (action.removesuffix("_order"),)  # no method can be named `return`
]

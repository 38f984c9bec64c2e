from django.urls import path

from codservice.api import paths  # noqa: F401  (registers <id:…>)
from orders.views import OrderViewSet

urlpatterns = [
    path("orders", OrderViewSet.as_view({"get": "list", "post": "create"}), name="orders"),
    path("orders/<id:id>", OrderViewSet.as_view({"get": "retrieve"}), name="order"),
    path("orders/<id:id>/cancel", OrderViewSet.as_view({"post": "cancel"}), name="order-cancel"),
]

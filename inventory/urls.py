from django.urls import path

from inventory.views import InventoryViewSet

urlpatterns = [
    path("inventory", InventoryViewSet.as_view({"get": "list", "put": "update"}), name="inventory"),
]

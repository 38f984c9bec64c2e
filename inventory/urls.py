from django.urls import path

from inventory.views import InventoryViewSet, ProductViewSet

urlpatterns = [
    path("inventory", InventoryViewSet.as_view({"get": "list", "put": "update"}), name="inventory"),
    path("products", ProductViewSet.as_view({"get": "list", "put": "update"}), name="products"),
    path("products/<id:id>", ProductViewSet.as_view({"get": "retrieve"}), name="product"),
]

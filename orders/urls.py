from django.urls import path

from orders.views import OrderViewSet, ShippingFeeViewSet

urlpatterns = [
    path("orders", OrderViewSet.as_view({"get": "list", "post": "create"}), name="orders"),
    path("orders/batch", OrderViewSet.as_view({"post": "batch"}), name="order-batch"),
    path("orders/<id:id>", OrderViewSet.as_view({"get": "retrieve", "patch": "partial_update"}), name="order"),
    path("orders/<id:id>/cancel", OrderViewSet.as_view({"post": "cancel"}), name="order-cancel"),
    path("shipping-fees", ShippingFeeViewSet.as_view({"get": "list", "put": "update"}), name="shipping-fees"),
]

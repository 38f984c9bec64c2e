from django.urls import path

from webhooks.views import DeliveryViewSet, EventViewSet, WebhookViewSet

urlpatterns = [
    path("webhooks", WebhookViewSet.as_view({"get": "list", "post": "create"}), name="webhooks"),
    path("events", EventViewSet.as_view({"get": "list"}), name="events"),
    path(
        "webhooks/<id:id>",
        WebhookViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
        name="webhook",
    ),
    path("webhooks/<id:id>/recover", WebhookViewSet.as_view({"post": "recover"}), name="webhook-recover"),
    path("webhooks/<id:id>/ping", WebhookViewSet.as_view({"post": "ping"}), name="webhook-ping"),
    path(
        "webhooks/<id:id>/rotate-secret",
        WebhookViewSet.as_view({"post": "rotate_secret"}),
        name="webhook-rotate-secret",
    ),
    path("webhooks/<id:id>/deliveries", DeliveryViewSet.as_view({"get": "list"}), name="webhook-deliveries"),
    path("deliveries/<id:id>", DeliveryViewSet.as_view({"get": "retrieve"}), name="delivery"),
    path("deliveries/<id:id>/resend", DeliveryViewSet.as_view({"post": "resend"}), name="delivery-resend"),
]

from django.urls import include, path, register_converter
from django.urls.converters import UUIDConverter
from django.views.generic import RedirectView

from codservice.api.views import DescriptionView, MeViewSet
from codservice.docs.views import api_docs


class CanonicalUUIDConverter(UUIDConverter):
    """The `<id:…>` of the API's paths: a UUID with dashes, in either case. Any other form matches no path (404)."""

    regex = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"


register_converter(CanonicalUUIDConverter, "id")

urlpatterns = [
    path("api/schema", DescriptionView.as_view(), name="schema"),
    path("api/docs", api_docs, name="api-docs"),
    path("api/v1/me", MeViewSet.as_view({"get": "retrieve"}), name="me"),
    path("api/v1/", include("orders.urls")),
    path("api/v1/", include("orders.regions.urls")),
    path("api/v1/", include("inventory.urls")),
    path("api/v1/", include("webhooks.urls")),
    path("api/v1/test/", include("agents.test_mode.urls")),
    path("console/", include("agents.urls")),
    path("docs/", include("codservice.docs.urls")),
    path("docs", RedirectView.as_view(pattern_name="docs")),  # as people type it
    path("i18n/", include("django.conf.urls.i18n")),
    path("account/", include("orders.home_page")),
    path("account/", include("orders.writing_pages")),
    path("account/", include("orders.account_pages")),
    path("account/", include("agents.account_pages")),
    path("account/", include("inventory.product_pages")),
    path("account/", include("orders.fee_page")),
    path("account/", include("orders.data_pages")),
    path("account/", include("orders.quick_start")),
    path("account/", include("codservice.uploads.account_pages")),
    path("account/", include("webhooks.account_pages")),
    path("account/", include("webhooks.log_pages")),
    path("", include("codservice.accounts.urls")),
]

handler400 = "codservice.api.error_answers.bad_request"
handler404 = "codservice.api.error_answers.not_found"
handler500 = "codservice.api.error_answers.server_error"

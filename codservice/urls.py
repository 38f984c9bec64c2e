from django.urls import include, path
from django.views.generic import RedirectView

from codservice.api.views import DescriptionView, MeViewSet
from codservice.docs.views import api_docs

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

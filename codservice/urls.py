from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

urlpatterns = [
    path("api/schema", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api-docs"),
    path("api/v1/", include("orders.urls")),
    path("api/v1/", include("inventory.urls")),
    path("api/v1/", include("webhooks.urls")),
    path("console/", include("agents.urls")),
    path("docs/", include("codservice.docs.urls")),
    path("docs", RedirectView.as_view(pattern_name="docs")),  # as people type it
    path("i18n/", include("django.conf.urls.i18n")),
    path("account/", include("orders.account_pages")),
    path("account/", include("orders.quick_start")),
    path("account/", include("webhooks.account_pages")),
    path("", include("codservice.accounts.urls")),
]

handler400 = "codservice.api.error_answers.bad_request"
handler404 = "codservice.api.error_answers.not_found"
handler500 = "codservice.api.error_answers.server_error"

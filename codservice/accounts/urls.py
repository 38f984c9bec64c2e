from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from codservice.accounts import views

urlpatterns = [
    path("", views.home, name="home"),
    path("account/login", views.Login.as_view(), name="login"),
    path("account/logout", LogoutView.as_view(), name="logout"),
    path("account/", views.api_keys, name="account"),
    path("account/keys/<uuid:id>/revoke", views.revoke_key, name="revoke-key"),
    # As people type them.
    path("account", RedirectView.as_view(pattern_name="account")),
    path("console", RedirectView.as_view(pattern_name="admin:index")),
]

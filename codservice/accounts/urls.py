from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from codservice.accounts import views

urlpatterns = [
    path("", views.home, name="home"),
    path("account/login", views.Login.as_view(), name="login"),
    path("account/logout", LogoutView.as_view(), name="logout"),
    path("account/password", views.PasswordChange.as_view(), name="password"),
    path("account/password/forgotten", views.PasswordForgotten.as_view(), name="password-forgotten"),
    path("account/password/sent", views.PasswordLinkSent.as_view(), name="password-link-sent"),
    path("account/password/new/<uidb64>/<token>", views.PasswordNew.as_view(), name="password-new"),
    path("account/keys", views.api_keys, name="api-keys"),
    path("account/keys/<uuid:id>/revoke", views.revoke_key, name="revoke-key"),
    # As people type them.
    path("account", RedirectView.as_view(pattern_name="account")),
    path("console", RedirectView.as_view(pattern_name="admin:index")),
]

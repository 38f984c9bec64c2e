from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from codservice.accounts import own_sessions, team_pages, views
from codservice.accounts.account_page import change_mode
from codservice.accounts.own_codes import codes

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
    path("account/mode", change_mode, name="account-mode"),
    path("account/security", views.security, name="security"),
    path("account/sessions", own_sessions.own_sessions, name="sessions"),
    path("account/sessions/end", own_sessions.end_other_sessions, name="end-other-sessions"),
    path("account/sessions/<uuid:id>/end", own_sessions.end_session, name="end-session"),
    path("account/codes", codes, name="codes"),
    path("account/team", team_pages.page, name="team"),
    path("account/team/leave", team_pages.leave, name="leave-team"),
    path("account/team/<uuid:id>", team_pages.colleague, name="colleague"),
    path("account/team/<uuid:id>/remove", team_pages.remove, name="colleague-remove"),
    path("account/team/<uuid:id>/codes", team_pages.forget_codes, name="colleague-codes"),
    path("account/invitations/<uuid:id>/again", team_pages.invite_again, name="invitation-again"),
    path("account/invitations/<uuid:id>/withdraw", team_pages.withdraw, name="invitation-withdraw"),
    path("account/invitation/<token>", team_pages.Accept.as_view(), name="invitation"),
    # Without the final slash, as people type them.
    path("account", RedirectView.as_view(pattern_name="account")),
    path("console", RedirectView.as_view(pattern_name="admin:index")),
]

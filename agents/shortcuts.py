"""Single-key shortcuts, which a person may turn off: with speech input, ordinary speech would press them."""

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.models import Preferences

SESSION = "without_keys"  # set only when the shortcuts are off, so no page asks the database


def remember(request: HttpRequest) -> None:
    """Copy the preference into the session at sign-in."""
    if Preferences.objects.filter(user_id=request.user.pk, has_keys=False).exists():
        request.session[SESSION] = True


@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    """Turn the shortcuts on or off, as the pressed button says, which may stand on a page from before the last switch.

    The person's other sessions follow at their next sign-in.
    """
    keys = request.POST.get("keys")
    if keys not in ("on", "off"):
        raise BadRequest("shortcuts are switched on or off")
    has_keys = keys == "on"
    Preferences.objects.update_or_create(user=request.user, defaults={"has_keys": has_keys})
    if has_keys:
        request.session.pop(SESSION, None)
    else:
        request.session[SESSION] = True
    messages.success(
        request, _("Shortcuts are on.") if has_keys else _("Shortcuts are off. No single key presses a button.")
    )
    return redirect("admin:index")

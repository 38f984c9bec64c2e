"""The pages of /docs/ and the files beside them, public and in three languages. Only search needs the database."""

from http import HTTPStatus

from django.contrib.auth.models import AnonymousUser
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.cache import patch_cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import conditional_page, require_safe

from codservice import ratelimit, values
from codservice.api.error_answers import note_outage, only_reading
from codservice.docs import library
from codservice.docs import search as searching
from codservice.docs.reference import OVERVIEW


@require_safe
@conditional_page
def page(request: HttpRequest, name: str = "index", language: str = "en") -> HttpResponse:
    site = library.site()
    if found := site.pages.get((language, name)):
        return _answer(request, "docs/page.html", site, language, found, {"page": found})
    if language == "en" and (path := site.files.get(name)):
        response = HttpResponse(path.read_bytes(), content_type=library.TYPES[path.suffix])
        if path.suffix in (".csv", ".json"):
            response.headers["Content-Disposition"] = f'attachment; filename="{path.name}"'
        patch_cache_control(response, public=True, no_cache=True)
        return response
    if meant := site.pages.get((language, name.removesuffix("/"))):
        return redirect(meant.url)
    raise Http404


@csrf_exempt  # nothing is written, and a POST is refused in JSON as everywhere in the API
def api_docs(request: HttpRequest) -> HttpResponse:
    """The page at `/api/docs`, where every refusal is JSON (docs/errors.md)."""
    if request.method not in ("GET", "HEAD"):
        return only_reading()
    return page(request, OVERVIEW)


@require_safe
@conditional_page
def search(request: HttpRequest, language: str = "en") -> HttpResponse:
    site = library.site()
    query = values.looked_for(request.GET.get("q", ""), searching.MAX_QUERY)
    if query and (wait := ratelimit.address_limited_for(request)):
        response = _answer(request, "429.html", site, language, None, {}, HTTPStatus.TOO_MANY_REQUESTS)
        response.headers["Retry-After"] = str(wait)
        return response
    try:
        results, status = searching.search(site, language, query), 200
    except (OperationalError, InterfaceError) as error:
        note_outage(error)
        results, status = None, 503
    context = {"query": query, "results": results}
    return _answer(request, "docs/search.html", site, language, None, context, status)


def _answer(
    request: HttpRequest,
    template: str,
    site: library.Site,
    language: str,
    found: library.Page | None,
    context: dict,
    status: int = 200,
) -> HttpResponse:
    name = found.name if found else "index"
    others = [site.pages.get((code, name)) or site.pages.get((code, "index")) for code in library.LANGUAGES]
    with translation.override(language):
        context |= {
            "parts": list(site.parts(language)),
            "others": [
                (library.LANGUAGES[other.language], other) for other in others if other and other.language != language
            ],
            "home": site.pages.get((language, "index")),
            "search_url": f"/docs/{library.FOLDERS[language]}search",
            "max_query": searching.MAX_QUERY,
        }
        try:
            request.user.is_authenticated  # noqa: B018 - reads the session
        except (OperationalError, InterfaceError):
            request.user = AnonymousUser()
        response = render(request, template, context, status=status)
    response.headers["Content-Language"] = language
    patch_cache_control(response, private=True, no_cache=True)
    return response

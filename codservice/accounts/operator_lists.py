"""What the operators' pages share: a list, searched and filtered by one form without scripts, and a page for each row.

A list reads along an index, shows PER_PAGE rows and counts no further than `BoundedPaginator`. It offers no filter that
lacks an index on a long table. The list of orders is one too.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList, ChangeListSearchForm
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from codservice import days, values
from codservice.accounts.models import Account
from codservice.long_lists import BoundedPaginator

PER_PAGE = 50


class Choice(admin.SimpleListFilter):
    """A filter by a few values: `offered` has the words and the condition of each. Other values are ignored."""

    offered: Mapping[str, tuple[Any, Q]] = {}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(value, words) for value, (words, _meant) in self.offered.items()]

    @property
    def chosen(self) -> str:
        return self.value() if self.value() in {value for value, _label in self.lookup_choices} else ""

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(self.offered[self.chosen][1]) if self.chosen else rows


class Owner(admin.SimpleListFilter):
    """A filter by a row of another table, whose page links here. `path` is the lookup of that row's id."""

    path = ""
    owners: QuerySet[Any]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return []

    def has_output(self) -> bool:
        return bool(self.value())

    @cached_property
    def wanted(self) -> UUID | None:
        return values.uuid_or_none(self.value())

    @cached_property
    def row(self) -> Model | None:
        """The row that owns the listed ones, for the page to name."""
        return self.owners.filter(pk=self.wanted).first() if self.wanted else None

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return rows
        if self.wanted is None:
            return rows.none()
        return rows.filter(self.meant(self.wanted))

    def meant(self, wanted: UUID) -> Q:
        return Q((self.path, wanted))


class MerchantFilter(Owner):
    """A filter by merchant, which includes what belongs to the merchant's twin."""

    title = _("merchant")
    parameter_name = "account"
    owners = Account.objects.filter(live=None)

    def meant(self, wanted: UUID) -> Q:
        return Q(account__in=Account.objects.filter(Q(pk=wanted) | Q(live=wanted)).values("pk"))


class UntilDay(admin.SimpleListFilter):
    """A filter by the last day, in Algeria's time, on which a row was made. An invalid day finds nothing.

    Without it, a list by time goes no further back than its newest BoundedPaginator.MOST rows."""

    title = _("Until")
    parameter_name = "until"
    is_day = True

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return []

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return rows
        try:
            return rows.filter(created_at__lt=days.read_moment(self.value(), ends=True))
        except ValueError:
            return rows.none()


class _SearchForm(ChangeListSearchForm):
    """The search box. It ignores invisible marks around what is typed."""

    def clean(self) -> dict[str, Any]:
        return {name: values.visible_part(text) for name, text in self.cleaned_data.items()}


class SearchedList(ChangeList):
    search_form_class = _SearchForm


class LongList(admin.ModelAdmin):
    """A list of a table that may be long, shown by the `change_list_template` of the subclass."""

    list_per_page = PER_PAGE
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    sortable_by: Sequence[str] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow only the filters on the page; no other question about the table is answered."""
        return lookup in {each.parameter_name for each in self.list_filter}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SearchedList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = capfirst(str(self.opts.verbose_name_plural))
        context = {"title": title, "most": BoundedPaginator.MOST, **(extra_context or {})}
        return super().changelist_view(request, context)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Refuse to copy a row, which Django does for any request with `_saveasnew`."""
        if "_saveasnew" in request.POST:
            raise PermissionDenied
        return super().changeform_view(request, *args, **kwargs)

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Like Django's, but for all chosen rows, even those changed meanwhile so that the filters no longer find them.

        An invalid id is a bad request, where Django fails."""
        try:
            chosen = self.get_queryset(request).filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))
            return super().response_action(request, chosen)
        except ValidationError as error:
            raise BadRequest(error) from error


class ReadOnly(LongList):
    """For operators to look at; rows cannot be added, edited or deleted.

    `change_form_template` shows a row as `row`, with what `page_of` adds. The page's buttons POST to it, for `act`.
    """

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        if request.method == "POST":
            return self.act(request, row)
        return self.show(request, row)

    def act(self, request: HttpRequest, row: Any) -> HttpResponse:
        """Do what a POST asks for. Raises PermissionDenied for what is not offered."""
        raise PermissionDenied

    def page_of(self, row: Any) -> dict[str, Any]:
        """What the page shows besides the row."""
        return {}

    def show(self, request: HttpRequest, row: Any, *, status: int = 200, **context: Any) -> TemplateResponse:
        """Render the row's page; `context` overrides `page_of`."""
        whole = {"title": str(row), "row": row, **self.page_of(row), **context}
        return self.answer(request, self.change_form_template, status=status, **whole)

    def answer(self, request: HttpRequest, template: str, *, status: int = 200, **context: Any) -> TemplateResponse:
        """Render a page of the console about these rows."""
        whole = {**self.admin_site.each_context(request), **context}
        return TemplateResponse(request, template, whole, status=status)

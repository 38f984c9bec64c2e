"""The console's list of orders and an order's page, with buttons that call `orders.lifecycle`. No form edits rows."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Page, Paginator
from django.db.models import Func, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents import order_search
from agents.console import for_workers, sent_from, show
from agents.desk import claims, customer, hours, notices, planning, shown
from agents.filters import ALL, FilterForm, FormFilter, HappenedFilter, SortFilter, StatusFilter
from agents.forms import CallNoteForm, CancelForm, MoveForm
from agents.supervision import bulk
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from codservice.accounts.operator_lists import LongList, SearchedList
from codservice.errors import Refused
from codservice.i18n_tags import counted
from codservice.long_lists import BoundedPaginator
from orders import counts, lifecycle
from orders.models import CallNote, CallState, Order, Status
from orders.reading import LATEST, with_detail

# The moves that have an address. `Order.MOVES` says which an order offers to whom; pending orders are decided on the
# call screen.
MOVES = ("cancel", "ship", "deliver", "return")
_TOLD = [*CallNote.CALLS, CallNote.Outcome.HANDED_OVER.value]  # skips and remarks say nothing about the customer
_COUNT = "(SELECT count(*) FROM {table} WHERE order_id = %(expressions)s)"
_COUNTS = {  # of an order, counted in the statement that reads it
    "call_count": Func("id", template=_COUNT.format(table="orders_callnote"), output_field=IntegerField()),
    "edit_count": Func("id", template=_COUNT.format(table="orders_orderedit"), output_field=IntegerField()),
}


class OrderList(SearchedList):
    @property
    def filters(self) -> dict[type, Any]:
        """The list's filters by class. Filters that show nothing are not among them."""
        return {type(each): each for each in self.filter_specs}

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Order]) -> list[Any]:
        """By id, along the indexes over all merchants; by time where that serves the form's filters faster."""
        sort, asked = SortFilter.chosen(request), self.filters[FormFilter]
        if not (sort in SortFilter.BY_TIME and asked.used and asked.form.is_valid()):
            return super().get_ordering(request, queryset)
        by_time = asked.form.is_by_time(sort, self.filters[StatusFilter].status)
        return list((SortFilter.BY_TIME if by_time else SortFilter.ORDERINGS)[sort])


# Its pages would show secrets and offer what people do for themselves at /console/codes/.
admin.site.unregister(TOTPDevice)


@admin.register(Order)
class OrderAdmin(LongList):
    change_list_template = "agents/order_list.html"
    list_display = ("__str__",)  # the template shows the columns itself
    list_filter = (StatusFilter, FormFilter, HappenedFilter, SortFilter)
    search_fields = ("phone_e164",)  # shows the search box; `order_search` says what is searched
    search_help_text = order_search.HINT
    actions = None

    # --- Who may do what -------------------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return any(lookup in each.parameter_names for each in self.list_filter)

    def get_urls(self) -> list[URLPattern]:
        """Only the list, an order's page and the addresses that its forms post to; none of Django's other pages."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="orders_order_changelist"),
            path("<uuid:order_id>/", view(require_safe(self.order_page)), name="orders_order_change"),
            path("<uuid:order_id>/note/", self._posted(self.add_note), name="orders_order_note"),
            *(
                path(f"<uuid:order_id>/{move}/", self._posted(self.make_move), {"move": move}, f"orders_order_{move}")
                for move in MOVES
            ),
        ]

    def _posted(self, view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        """A view that takes only POST, from people who may work on orders, about an order that is no longer pending."""

        @wraps(view)
        def of_decided(request: HttpRequest, order_id: UUID, **kwargs: Any) -> HttpResponse:
            order = get_object_or_404(Order.live, id=order_id)
            if order.status == Status.PENDING:
                messages.error(request, _("This order is waiting for a call. Call the customer to decide it."))
                return redirect(_page(order_id))
            return view(request, order, **kwargs)

        return sent_from(_page)(for_workers(self.admin_site, of_decided, home=_page))

    # --- The list --------------------------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Order]:
        # A subquery, so that names are looked up for the rows of the page alone. With a join, when PostgreSQL expects
        # few orders, it scans all users for each one found.
        merchants = Account.objects.filter(pk=OuterRef("account_id")).values("name")
        calls = CallNote.objects.filter(order_id=OuterRef("pk"), outcome__in=_TOLD).order_by("-created_at", "-id")
        last_call = calls.values(json=JSONObject(outcome="outcome", at="created_at"))[:1]
        orders = Order.live.prefetch_related("callback_agent")
        return orders.annotate(merchant_name=Subquery(merchants), last_call=Subquery(last_call))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return OrderList

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return SortFilter.ORDERINGS[SortFilter.chosen(request)]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Order], search_term: str
    ) -> tuple[QuerySet[Order], bool]:
        return order_search.search(queryset, search_term), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, {"title": _("Orders"), **(extra_context or {})})
        if response.status_code == HTTPStatus.FOUND and PAGE_VAR in request.GET:
            # The page no longer exists. Django would redirect to the bare list, without the filters.
            asked = request.GET.copy()
            del asked[PAGE_VAR]
            return redirect(f"{request.path}?{asked.urlencode()}")
        if "cl" in getattr(response, "context_data", {}):
            response.context_data |= self._beside(request, response.context_data["cl"])
        return response

    def _beside(self, request: HttpRequest, changelist: OrderList) -> dict[str, Any]:
        """What the list's page shows besides Django's own context."""
        orders, filters, sort = changelist.result_list, changelist.filters, SortFilter.chosen(request)
        now = timezone.now()
        status, happened = filters[StatusFilter].status, filters.get(HappenedFilter)
        by_status, found = self._counts(changelist), changelist.result_count
        if found == BoundedPaginator.MOST:
            found = by_status.get(status, 0)
        kept = {"sort": sort} if "sort" in request.GET else {}
        may_wait, asked = status in (Status.PENDING, ALL), filters[FormFilter]
        return {
            "tabs": [(value, label, by_status.get(value)) for value, label in [*Status.choices, (ALL, _("All"))]],
            "status": status,
            "found": counted(found) if found else f"{counted(BoundedPaginator.MOST)}+",
            "sorts": SortFilter.offered(request),
            "sort": sort,
            "kept": kept | (happened.values if happened else {}),
            "callers": claims.callers(order.phone_e164 for order in orders),
            "last_calls": {order.id: _in_words(order.last_call) for order in orders if order.last_call},
            "may_wait": may_wait,
            "elsewhere": not may_wait and asked.used & FilterForm.OF_PENDING and asked.form.is_valid(),
            "now": now,
            "next_calls": _next_calls(orders, now),
            "bulk_actions": self._bulk_actions(request, "" if status == ALL else status),
            "asked": [(name, value) for name, value in request.GET.items() if self.lookup_allowed(name, "", request)],
        }

    def _bulk_actions(self, request: HttpRequest, status: str) -> dict[str, str]:
        """The actions that can succeed on this tab's orders; none for people who may not do them."""
        if not request.user.has_perm("orders.supervise_order") or status not in ("", *Status.values):
            return {}
        call, holder, promised = (request.GET.get(name, "").strip() for name in ("call", "holder", "promised"))
        if promised:
            call = CallState.CALLBACK
        return bulk.offered(status, call if call in CallState.values else "", is_held=bool(holder))

    def _counts(self, changelist: OrderList) -> dict[str, int]:
        """The number of orders under each tab. Empty when anything but a merchant narrows the list."""
        asked = changelist.filters[FormFilter]
        if changelist.query or HappenedFilter in changelist.filters or asked.used - {"merchant"}:
            return {}
        if asked.used and not asked.form.is_valid():
            return {}
        merchants = asked.form.merchants() if asked.used else Account.objects.filter(live=None)
        found = {status.value: 0 for status in Status} | counts.by_status(account__in=merchants.values("pk"))
        return {**found, ALL: sum(found.values())}

    # --- An order's page and its buttons ---------------------------------------------------------------------------

    def order_page(self, request: HttpRequest, order_id: UUID, *, bound: Any = None) -> HttpResponse:
        """Everything about one order. `bound` is a form that was refused, to be shown again with its errors."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        orders = Order.live.select_related("account").annotate(**_COUNTS)
        order = get_object_or_404(with_detail(orders, but=LATEST), id=order_id)
        is_worker = request.user.has_perm("orders.work_order")
        is_pending = order.status == Status.PENDING
        offered = Order.moves_at(order.status, Actor.of_staff(request.user).role)
        return show(
            request,
            "agents/order.html",
            title=order.customer_name,
            order=order,
            whole=customer.whole(order),
            calls=_asked(request, "calls", order.call_notes.order_by("-created_at", "-id"), order.call_count),
            edits=_asked(request, "edits", order.edits.order_by("-at", "-id"), order.edit_count),
            others=customer.others(order),
            duplicates=customer.duplicates([order.id])[order.id],
            moves=offered if is_worker and not is_pending else (),
            move_form=MoveForm(order=order),
            cancel_form=bound if isinstance(bound, CancelForm) else CancelForm(order=order),
            note_form=bound if isinstance(bound, CallNoteForm) else CallNoteForm(order=order),
            settled=shown.SETTLED_MS,
            is_worker=is_worker,
            is_pending=is_pending,
            claim=claims.on_customer(order.phone_e164) if is_pending else None,
            status=422 if bound else 200,
        )

    def add_note(self, request: HttpRequest, order: Order) -> HttpResponse:
        """Note a call even if the order has changed since the page was opened, and then tell the agent what changed."""
        form = CallNoteForm(request.POST, order=order)
        if not form.is_valid():
            return self.order_page(request, order.id, bound=form)
        data = form.cleaned_data
        call = lifecycle.Call(request.user, CallNote.Outcome(data["outcome"]), data["note"], form.press_id)
        try:
            lifecycle.add_call_note(order.id, call)
        except Refused as refused:
            messages.error(request, refused.message)
            return redirect(_page(order.id))
        messages.success(request, _("The call is noted."))
        if data["version"] != order.version:
            messages.warning(request, notices.what_happened(order.id, request.user))
        return redirect(_page(order.id))

    def make_move(self, request: HttpRequest, order: Order, *, move: str) -> HttpResponse:
        form = (CancelForm if move == "cancel" else MoveForm)(request.POST, order=order)
        if not form.is_valid():
            return self.order_page(request, order.id, bound=form)
        actor, seen_version = Actor.of_staff(request.user), form.cleaned_data["version"]
        try:
            order = lifecycle.move(move, order.id, actor=actor, reason=form.reason, seen_version=seen_version)
        except Refused as refused:
            level, text = notices.refusal(refused, order.id, seen_version, request.user)
            messages.add_message(request, level, text)
        else:
            done = _("The order is now “%(status)s”.") % {"status": order.get_status_display()}
            messages.success(request, done)
        return redirect(_page(order.id))


def _in_words(call: dict[str, str]) -> dict[str, Any]:
    return {"outcome": CallNote.Outcome(call["outcome"]).label, "at": datetime.fromisoformat(call["at"])}


def _next_calls(orders: Iterable[Order], now: datetime) -> dict[UUID, datetime]:
    """The earliest time of the next call of each order that waits for one, within its merchant's calling hours."""
    waiting = [order for order in orders if order.status == Status.PENDING and order.call_state != CallState.REVIEW]
    windows = hours.by_account([order.id for order in waiting]) if waiting else {}
    return {
        order.id: planning.opening(max(order.call_due_at, now), windows.get(order.account_id, [])) for order in waiting
    }


def _asked(request: HttpRequest, name: str, rows: QuerySet[Any], count: int) -> Page:
    """The page of an order's calls or edits that the query string asks for."""
    pages = Paginator(rows, customer.MOST_LATEST)
    pages.count = count
    return pages.get_page(request.GET.get(name))


def _page(order_id: UUID, **kwargs: Any) -> str:
    return reverse("admin:orders_order_change", args=[order_id])

"""Shipping fees by wilaya and delivery type (docs/orders.md): how they come in, are kept and go out."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from msgspec import Struct
from rest_framework import serializers

from codservice import wire
from codservice.accounts.models import Account
from codservice.api.fields import Amount, Body, Entries
from orders import regions
from orders.bodies import WilayaCode
from orders.models import DeliveryType, ShippingFee
from orders.serializers import WilayaField

MAX_FEES = len(regions.WILAYAS)

Fee = dict[str, Any]  # `wilaya_code`, with `home`, `desk` or both if these are to be changed

# --- What comes in ---------------------------------------------------------------------------------------------------


class ShippingFeeEntry(Body):
    """What a delivery to one wilaya costs. Null removes `home` or `desk`; one that is not sent stays."""

    wilaya = WilayaField(max_length=255)
    home = Amount(allow_null=True, required=False, help_text="To the door, in DZD.")
    desk = Amount(allow_null=True, required=False, help_text="To a courier's stop desk, in DZD.")

    # Written as a double `not`, because client generators make no class of a bare `anyOf`.
    openapi_extra = {"not": {"not": {"anyOf": [{"required": [name]} for name in ("home", "desk")]}}}

    def read(self, data: Any) -> tuple[dict[str, Any], Any]:
        fee, errors = super().read(data)
        if type(data) is dict and not {"home", "desk"} & data.keys():
            errors["home"] = ["Send home, desk or both; null removes one."]
        if "wilaya" in fee:
            try:
                fee["wilaya_code"] = regions.find_wilaya(fee.pop("wilaya")).code
            except regions.NotFound as error:
                errors["wilaya"] = [str(error)]
        return fee, errors


class Fees(Entries):
    def clean(self, data: Any) -> list[Fee]:
        fees, wrong = [], []
        first: dict[str, int] = {}  # the index of each wilaya's first entry
        for number, (fee, errors) in enumerate(super().clean(data)):
            if "wilaya_code" in fee and (earlier := first.setdefault(fee["wilaya_code"], number)) != number:
                errors["wilaya"] = [f"Is already the wilaya of fees.{earlier}."]
            fees.append(fee)
            wrong.append(errors)
        if any(wrong):
            raise serializers.ValidationError(wrong)
        return fees


class ShippingFees(Body):
    fees = Fees(child=ShippingFeeEntry(), max_length=MAX_FEES)


# --- What goes out ---------------------------------------------------------------------------------------------------


class ShippingFeeBody(Struct):
    wilaya: WilayaCode
    home: wire.Amount | None
    desk: wire.Amount | None


class ShippingFeeListBody(Struct):
    data: list[ShippingFeeBody]


def of_account(account_id: UUID) -> ShippingFeeListBody:
    """The account's fees, by wilaya."""
    fees = ShippingFee.objects.filter(account_id=account_id).order_by("wilaya_code")
    return ShippingFeeListBody([ShippingFeeBody(*row) for row in fees.values_list("wilaya_code", "home", "desk")])


def by_place(account_id: UUID) -> dict[tuple[str, str], Decimal]:
    """The account's fees by (wilaya, delivery type), for those that are set."""
    return {
        (own.wilaya, kind): fee
        for own in of_account(account_id).data
        for kind in DeliveryType.values
        if (fee := getattr(own, kind)) is not None
    }


# --- Changing fees ---------------------------------------------------------------------------------------------------


def set_fees(account_id: UUID, changes: Sequence[Fee]) -> None:
    """Change the fees of some wilayas, each named once; a wilaya left without a fee is deleted.

    One transaction of four statements, for one wilaya or all. Concurrent calls for an account wait for each other.
    """
    with transaction.atomic():
        Account.lock(account_id)
        codes = [change["wilaya_code"] for change in changes]
        there = ShippingFee.objects.filter(account_id=account_id, wilaya_code__in=codes)
        before = {fee["wilaya_code"]: fee for fee in there.values("wilaya_code", "home", "desk")}
        after = [{"home": None, "desk": None} | before.get(change["wilaya_code"], {}) | change for change in changes]
        empty = [fee["wilaya_code"] for fee in after if fee["home"] is None and fee["desk"] is None]
        there.filter(wilaya_code__in=empty).delete()
        ShippingFee.objects.bulk_create(
            [ShippingFee(account_id=account_id, **fee) for fee in after if fee["wilaya_code"] not in empty],
            update_conflicts=True,
            update_fields=["home", "desk"],
            unique_fields=["account", "wilaya_code"],
        )

"""Make two products of unlimited stock for each of eight clients, and print an API key."""

import secrets

from oscar.core.loading import get_model
from oscarapi.models import ApiKey

get_model("address", "Country").objects.create(
    iso_3166_1_a2="DZ", printable_name="Algeria", name="Algeria", is_shipping_country=True
)
partner = get_model("partner", "Partner").objects.create(name="Merchant")
kind = get_model("catalogue", "ProductClass").objects.create(name="Clothes", track_stock=False)
for number, (title, price) in enumerate([("Robe kabyle", "1800.25"), ("Foulard", "500")] * 8):
    product = get_model("catalogue", "Product").objects.create(id=number + 1, title=title, product_class=kind)
    product.stockrecords.create(partner=partner, partner_sku=str(number), price_currency="DZD", price=price)
    # Counts the baskets with the product. Clients with the same products would wait for each other's transactions.
    get_model("analytics", "ProductRecord").objects.create(product=product)
print(ApiKey.objects.create(key=secrets.token_urlsafe(32)).key)

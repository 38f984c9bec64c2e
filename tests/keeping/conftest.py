from tests.webhooks.conftest import delivery_of, register  # noqa: F401  (webhooks and deliveries in any state)

"""How much each table grows: bytes for a row, including its indexes, and for a million orders.

    make bench-growth

Orders like the demo's (`seed_demo`) go through all their moves with the rule modules. Their events go to one webhook
whose receiver acknowledges them, and stock is set once for each order. Sizes are read after a VACUUM, as in a running
service.
"""

import json
from random import Random

from benchmarks import command_line, service
from benchmarks.deliveries import receiver

ORDERS = 10_000
BATCH = 100

TABLES = "SELECT string_agg(relname, ' ') FROM pg_stat_user_tables WHERE pg_relation_size(relid) > 500000"
SIZE = "SELECT count(*), pg_total_relation_size('{0}'), pg_indexes_size('{0}') FROM {0}"


def fill(url: str) -> None:
    from django.db import transaction

    from agents.management.commands.seed_demo import Command
    from codservice.accounts.actor import Actor
    from codservice.accounts.models import Account
    from inventory import stock
    from orders import demo, importing
    from webhooks import secrets
    from webhooks.engine import engine
    from webhooks.models import Event, Webhook

    command, chance = Command(), Random(1)
    account: Account
    account, agents = command.make_people("growth@example.dz", 1, secrets.make_secret())
    secret = secrets.make_secret()
    Webhook.objects.create(
        account=account,
        url=url,
        events=Event.Kind.values,
        secret=secrets.encrypt(secret),
        secret_hint=secrets.hint(secret),
    )
    skus = [sku for sku, *_ in demo.CATALOG]
    for start in range(0, ORDERS, BATCH):
        with transaction.atomic():
            bodies = [demo.order(chance, f"GROWTH-{start + number}") for number in range(BATCH)]
            importing.import_orders(account.id, bodies, actor=Actor.of_command("growth"))
            numbers = [body["external_id"] for body in bodies]
            for order in account.orders.filter(external_id__in=numbers).order_by("id"):
                command.play(order, chance, agents)
                update = stock.Update(sku=chance.choice(skus), quantity=chance.randrange(1000))
                stock.set_quantities(account.id, [update], actor=Actor.of_command("growth"))
    engine.drain()


def main() -> None:
    command_line(__doc__).parse_args()
    with service.with_django(WEBHOOK_ALLOW_PRIVATE="true", LOG_LEVEL="WARNING") as storage, receiver() as url:
        fill(url)
        storage.sql("VACUUM ANALYZE")
        sizes = {
            table: [int(number) for number in storage.sql(SIZE.format(table)).split("|")]
            for table in storage.sql(TABLES).split()
        }
    print(f"{'table':28} {'rows/order':>10} {'bytes/row':>10} {'of indexes':>10} {'GB/1M orders':>13}")
    for table, (rows, size, indexes) in sorted(sizes.items(), key=lambda item: -item[1][1]):
        print(
            f"{table:28} {rows / ORDERS:10.2f} {size / rows:10.0f} {indexes / rows:10.0f} {size / ORDERS / 1000:13.2f}"
        )
    total = sum(size for _, size, _ in sizes.values()) / ORDERS
    print(json.dumps({"bytes_per_order": round(total), "gb_per_million_orders": round(total / 1000, 2)}))


if __name__ == "__main__":
    main()

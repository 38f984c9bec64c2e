"""SQL that makes a real service break a promise, to see that the checker finds it.

Each does so only sometimes, so that the checker has to find it among much that went well.
"""

from collections.abc import Mapping

_SOMETIMES = "random() < 0.1"


def _trigger(name: str, when: str, table: str, body: str) -> str:
    return (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
        f"CREATE TRIGGER {name} {when} ON {table} FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION {name}()"
    )


# Name → SQL, and the rules of the checker that it breaks.
PLANTS: Mapping[str, tuple[str, set[str]]] = {
    # An order's import is answered, but not all of its lines are kept.
    "a row is dropped": (
        _trigger(
            "plant_drop",
            "AFTER INSERT",
            "orders_orderitem",
            f"IF {_SOMETIMES} THEN DELETE FROM orders_orderitem WHERE id = NEW.id; END IF; RETURN NULL;",
        ),
        {"lost", "halved"},
    ),
    "a change is doubled": (
        _trigger(
            "plant_double",
            "AFTER INSERT",
            "orders_statuschange",
            f"IF NEW.from_status IS NOT NULL AND {_SOMETIMES} THEN INSERT INTO orders_statuschange"
            " (account_id, order_id, from_status, to_status, at, actor, reason) VALUES (NEW.account_id, NEW.order_id,"
            " NEW.from_status, NEW.to_status, NEW.at, NEW.actor, NEW.reason); END IF; RETURN NULL;",
        ),
        {"doubled", "moves"},
    ),
    "an event is skipped": (
        _trigger(
            "plant_skip",
            "BEFORE INSERT",
            "webhooks_delivery",
            f"IF {_SOMETIMES} THEN RETURN NULL; END IF; RETURN NEW;",
        ),
        {"deliveries"},
    ),
    "a stock update is lost": (
        _trigger(
            "plant_stock",
            "BEFORE UPDATE",
            "inventory_product",
            f"IF {_SOMETIMES} THEN NEW.stock_quantity = OLD.stock_quantity; END IF; RETURN NEW;",
        ),
        {"stock"},
    ),
    "keys are forgotten": (
        _trigger(
            "plant_forget",
            "BEFORE INSERT",
            "api_idempotencyrecord",
            "IF random() < 0.5 THEN NEW.key = NEW.key || '-forgotten'; END IF; RETURN NEW;",
        ),
        {"doubled", "replays"},
    ),
    "a result is not written down": (
        _trigger(
            "plant_result",
            "BEFORE UPDATE",
            "webhooks_delivery",
            f"IF NEW.status = 'delivered' AND {_SOMETIMES} THEN RETURN NULL; END IF; RETURN NEW;",
        ),
        {"repeats"},
    ),
    "commits are answered early": (
        "ALTER DATABASE codservice SET synchronous_commit = off",
        {"lost", "durability"},  # `lost` only if PostgreSQL is killed
    ),
    "the limit is not the limit": (
        "UPDATE accounts_account SET rate_limit = 70 WHERE name = 'dave'",
        {"limit"},
    ),
}

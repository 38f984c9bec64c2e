"""The record of a run for the checker: what was sent and answered, what arrived, what was done to the service, and the
rows at the end. It is plain data, so that a test can write it by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass
class Import:
    """One order that a shop imports, however often it had to be sent. Its `notes` are unique."""

    account: str
    body: Row
    key: str = ""
    """The Idempotency-Key. Empty: it is sent only once, whatever happens."""
    answer: Row | None = None
    """The order in the answer."""
    replays: list[Row] = field(default_factory=list)
    """Answers to the same request, sent again after it was answered."""
    reused: list[int] = field(default_factory=list)
    """Statuses of the answers to other bodies with the same key."""

    @property
    def tag(self) -> str:
        return self.body["notes"]


@dataclass
class Cancel:
    """A shop's cancellation, and the `status` of the answer: 0 for none."""

    order: str
    status: int = 0


@dataclass
class Decision:
    """What an agent decided about an order: `confirm`, `cancel` or a call's outcome. Its `note` is unique."""

    order: str
    outcome: str
    note: str
    is_done: bool | None = None
    """None: no answer. False: refused, because somebody was faster."""


@dataclass
class StockPut:
    """One bulk update (SKU → quantity), sent once. No two of them have the same quantity."""

    account: str
    entries: dict[str, int]
    is_answered: bool = False


@dataclass
class Answer:
    """One answer, or none (`status` 0), as its client saw it. Times are `time.monotonic`."""

    who: str
    what: str
    began: float
    ended: float
    status: int
    content_type: str = ""
    retry_after: str = ""


@dataclass
class Counted:
    """An answer to a key with a limit: its status, and how many requests were left in the window."""

    status: int
    remaining: int


@dataclass
class Receipt:
    """One request that a receiver got."""

    webhook: str
    delivery: str
    attempt: int
    event: str
    signature: str
    body: bytes


@dataclass
class Subscription:
    """A webhook, named by its path at the receiver."""

    account: str
    kinds: Sequence[str]
    secret: str


@dataclass
class Injury:
    """What was done to the service, and until when that excuses missing answers."""

    fault: str
    began: float
    ended: float
    kills: str = ""
    """The part that was killed, if any."""
    hurts: bool = True
    """Whether requests may fail because of it. They may not while Redis, a worker or beat is away."""
    in_flight: Sequence[str] = ()
    """Deliveries that the killed worker was sending."""
    recovered: float | None = None
    """When lists were answered again. None: not within the patience of the run."""


@dataclass
class Rows:
    """The tables at the end. Ids are text, and amounts are text as PostgreSQL writes them."""

    orders: dict[str, Row] = field(default_factory=dict)  # id → account, status, notes, total_amount, name, phone
    lines: dict[str, list[Row]] = field(default_factory=dict)  # order → product_name, quantity, unit_price
    changes: list[Row] = field(default_factory=list)  # order, from_status, to_status, in the order of their ids
    notes: list[tuple[str, str]] = field(default_factory=list)  # of calls: order, text
    products: dict[str, Row] = field(default_factory=dict)  # id → account, sku, stock_quantity
    movements: list[Row] = field(default_factory=list)  # product, old, new, in the order of their ids
    events: dict[str, Row] = field(default_factory=dict)  # id → account, kind, body
    deliveries: dict[str, Row] = field(default_factory=dict)  # id → event, webhook (its path), status
    settings: dict[str, str] = field(default_factory=dict)  # of PostgreSQL


@dataclass
class Record:
    """A whole run."""

    imports: list[Import] = field(default_factory=list)
    cancels: list[Cancel] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    puts: list[StockPut] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    burst: list[Counted] = field(default_factory=list)
    """The answers to more requests at once than their key's limit, all within one window."""
    receipts: list[Receipt] = field(default_factory=list)
    webhooks: dict[str, Subscription] = field(default_factory=dict)
    injuries: list[Injury] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    read_back: dict[str, Row] = field(default_factory=dict)
    """Orders by id, as the API shows them at the end."""
    totals: dict[str, int] = field(default_factory=dict)
    """How many orders each account has according to the API's list."""
    exits: list[str] = field(default_factory=list)
    """What was said when the service ended by itself, stopped with an error, or a part did not come back."""
    starts_again: int = 0
    """How often a start ended before the service was up, and was made again."""
    log: str = ""
    """PostgreSQL's log."""
    samples: list[dict[str, float]] = field(default_factory=list)
    """Every ten seconds: megabytes on the disk and in each part's memory, and the number of database sessions."""
    seconds: float = 0.0

from celery import shared_task

from codservice.api import idempotency


@shared_task
def forget_idempotency_keys() -> int:
    """Every few minutes, beside the daily sweep: there may be one for each order."""
    return sum(counts["idempotency_keys"] for counts in idempotency.forget_old())

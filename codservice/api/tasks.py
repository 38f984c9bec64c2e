from celery import shared_task

from codservice.api import retention


@shared_task
def forget_idempotency_keys() -> int:
    """Every few minutes, beside the daily sweep: there may be one for each order."""
    return sum(counts["idempotency_keys"] for counts in retention.idempotency_keys())

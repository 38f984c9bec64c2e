from celery import shared_task

from codservice.api import idempotency


@shared_task
def forget_idempotency_keys() -> int:
    return idempotency.forget_old()

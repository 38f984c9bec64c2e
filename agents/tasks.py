from celery import shared_task

from agents.desk import claims


@shared_task
def shorten_claims() -> int:
    """Let no claim of a customer last, and no new order wait, for longer than usual, whatever becomes of the
    database's clock; how many would have.
    """
    return claims.shorten()

from celery import shared_task

from codservice.uploads import processing


@shared_task
def go_on() -> int:
    """Work on uploads and return the number of turns. Each worker runs it by its own clock (WORKER_SCHEDULE)."""
    return processing.go_on()

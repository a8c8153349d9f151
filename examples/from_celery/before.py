"""A small shop on Celery: `celery -A before worker`, `celery -A before beat`, `python before.py`."""

from __future__ import annotations

from celery import Celery, group
from celery.schedules import crontab

app = Celery("shop", broker="redis://localhost:6379/0", backend="redis://localhost:6379/0")
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True
app.conf.timezone = "Europe/London"
app.conf.beat_schedule = {"report": {"task": "shop.report", "schedule": crontab(hour=9, minute=0)}}


class CardRefused(Exception):
    pass


@app.task(
    name="shop.charge",
    bind=True,
    autoretry_for=(ConnectionError,),
    dont_autoretry_for=(CardRefused,),
    max_retries=5,
    retry_backoff=True,
)
def charge(self, order_id, amount):
    print("charge", order_id, amount, "attempt", self.request.retries + 1)
    send_receipt.apply_async((order_id,), countdown=60, queue="mails")
    return f"receipt {order_id}"


@app.task(name="shop.send_receipt", queue="mails", ignore_result=True)
def send_receipt(order_id):
    print("mail", order_id)


@app.task(name="shop.thumbnail", time_limit=60)
def thumbnail(picture):
    return picture[:100]


@app.task(name="shop.report", ignore_result=True)
def report():
    print("report")


if __name__ == "__main__":
    print(charge.delay(7, 12.5).get(timeout=10))
    print(group(thumbnail.s(name) for name in ("a.png", "b.png"))().get(timeout=10))

"""The same shop on headrace: `headrace worker after:app`, `python after.py`."""

from __future__ import annotations

from headrace import App, RetryPolicy, current_job

app = App()  # HEADRACE_URL=redis://localhost:6379/0


class CardRefused(Exception):
    pass


@app.task(name="shop.charge", retry=RetryPolicy.exponential(5, on=ConnectionError, give_up_on=CardRefused))
def charge(order_id: int, amount: float) -> str:
    print("charge", order_id, amount, "attempt", current_job().attempt)
    # Once for each order, also when this function runs a second time after a crash.
    send_receipt.with_(delay=60, job_id=f"receipt-{order_id}").sync.enqueue(order_id)
    return f"receipt {order_id}"


@app.task(name="shop.send_receipt", queue="mails")
def send_receipt(order_id: int) -> None:
    print("mail", order_id)


@app.task(name="shop.thumbnail", run_in="process", timeout=60)
def thumbnail(picture: str) -> str:
    return picture[:100]


@app.cron("0 9 * * *", tz="Europe/London")
@app.task(name="shop.report")
def report() -> None:
    print("report")


if __name__ == "__main__":
    print(charge.sync.enqueue(7, 12.5).sync.result(timeout=10))
    jobs = app.sync.enqueue_many([thumbnail.call(name) for name in ("a.png", "b.png")])
    print([app.sync.result(job, timeout=10) for job in jobs])

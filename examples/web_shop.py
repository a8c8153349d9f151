"""A web shop on FastAPI: a request enqueues a job, a worker in the same process runs it, the page follows it.

$ python examples/web_shop.py
Then open http://127.0.0.1:8000/ and buy something. /admin/jobs has the dashboard, after a login.
"""

from __future__ import annotations

import asyncio
import os
import secrets

import uvicorn
from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.middleware.sessions import SessionMiddleware

from headrace import App, RetryPolicy, current_job
from headrace.fastapi import HeadraceApp, JobEvents, dashboard, lifespan

app = App(os.environ.get("HEADRACE_URL", "sqlite:///web_shop.db"))


class CardDeclined(Exception):
    pass


@app.task(name="shop.charge", retry=RetryPolicy.exponential(5, base=0.1))
async def charge(order: str, amount: int) -> str:
    steps = ["asking the bank", "printing the receipt", "packing the parcel"]
    for number, step in enumerate(steps):
        await current_job().progress(number / len(steps), step)
        await asyncio.sleep(0.3)
    if amount > 100 and current_job().attempt == 1:
        raise CardDeclined(f"order {order}")  # the bank is careful with large amounts; the retry goes through
    await send_mail.enqueue(order)
    return f"receipt for order {order}: {amount} €"


@app.task(name="shop.send_mail", queue="mails", rate_limit="10/s")
async def send_mail(order: str) -> None:
    print(f"mail: thank you for order {order}")


site = FastAPI(lifespan=lifespan(app, worker={"concurrency": 20}))
site.add_middleware(SessionMiddleware, secret_key=secrets.token_hex())
events = JobEvents(app)

PAGE = """<!doctype html>
<title>A shop</title>
<button id="buy">Buy a lamp for 125 €</button>
<pre id="state"></pre>
<script>
  buy.onclick = async () => {
    const order = await (await fetch("/orders?amount=125", {method: "POST"})).json();
    const source = new EventSource(`/jobs/${order.job}/events`);
    const show = (event) => state.textContent = JSON.stringify(JSON.parse(event.data), null, 2);
    source.addEventListener("job", show);
    source.addEventListener("end", (event) => { show(event); source.close(); });
  };
</script>"""


@site.get("/")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE)


@site.post("/orders", status_code=202)
async def place(amount: int, jobs: HeadraceApp) -> dict[str, str]:
    order = secrets.token_hex(4)
    job = await jobs.enqueue(charge.call(order, amount))
    return {"order": order, "job": job.id}


@site.get("/jobs/{job_id}/events")
async def follow(job_id: str, request: Request) -> Response:
    return await events.stream(request, job_id)


@site.get("/login")
async def login_form() -> HTMLResponse:
    form = '<form method="post">Password (it is "lamp"): <input name="password" type="password"></form>'
    return HTMLResponse(form)


@site.post("/login")
async def login(request: Request, password: str = Form()) -> Response:
    request.session["staff"] = password == "lamp"
    return RedirectResponse("/admin/jobs/", 303)


def is_staff(request: Request) -> bool:
    return request.session.get("staff") is True


site.mount("/admin/jobs", dashboard(app, allow=is_staff, login="/login"))

if __name__ == "__main__":
    uvicorn.run(site, port=int(os.environ.get("PORT", "8000")), timeout_graceful_shutdown=2)

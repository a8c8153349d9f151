"""A Flask site with a factory. `HEADRACE_URL` names the store; gunicorn serves `create_app()`."""

from __future__ import annotations

import os
import threading

from flask import Flask, current_app, g
from flask.typing import ResponseReturnValue

from headrace import App
from headrace.flask import Headrace, site_app

app = App()
headrace = Headrace(app)


@app.task(name="charge")
def charge(order: int) -> str:
    g.order = order
    return f"{current_app.config['SHOP']} {order}"


@app.task(name="mail")
async def mail(order: int) -> str:
    return f"{current_app.config['SHOP']} {order}"


def create_app() -> Flask:
    site = Flask(__name__)
    site.config["SHOP"] = "shop of ann"
    headrace.init_app(site)
    app.sync.enqueue(mail.with_(job_id="opening").call(0))  # under --preload: before the server forks

    @site.post("/orders/<int:order>")
    def place(order: int) -> ResponseReturnValue:
        job = charge.sync.enqueue(order)
        site_app().sync.enqueue(mail.call(order))
        return {"job": job.id, "process": os.getpid(), "thread": threading.get_ident()}

    @site.get("/jobs/<id>")
    def result(id: str) -> ResponseReturnValue:
        return {"result": app.sync.result(app.job(id), timeout=10)}

    return site

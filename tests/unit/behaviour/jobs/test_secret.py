"""Secret[T]: what a job is told in confidence is nowhere to be read."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, SecretStr

from headrace import App, InvalidPayload, JobStatus, RetryPolicy, Secret
from tests.unit.behaviour.work import drain

WORD = "swordfish"


class Login(BaseModel):
    user: str
    password: SecretStr
    token: Secret[str]


@pytest.mark.parametrize("given", [WORD, Secret(WORD)])
async def test_a_job_gets_it_and_a_listing_does_not(app: App, given: Any) -> None:
    @app.task(name="login")
    async def login(user: str, password: Secret[str]) -> bool:
        return password.reveal() == WORD

    job = await login.enqueue("ada", given)
    contents = await app.admin.contents(job.id)
    assert contents is not None
    assert contents.args == ("ada", "***")
    await drain(app)
    assert await job.result() is True


async def test_an_app_without_the_code_masks_it_too() -> None:
    app, stranger = App("memory://vault"), App("memory://vault")

    @app.task(name="login")
    async def login(passwords: list[Secret[str]], **more: Secret[str]) -> None: ...

    async with app, stranger:
        job = await login.enqueue([Secret(WORD)], again=Secret(WORD))
        contents = await stranger.admin.contents(job.id)
        assert contents is not None
        assert (contents.args, contents.kwargs) == ((["***"],), {"again": "***"})
        await job.cancel()


async def test_a_result_may_be_one(app: App) -> None:
    @app.task(name="make")
    async def make() -> Secret[str]:
        return Secret(WORD)

    job = await make.enqueue()
    await drain(app)
    assert await job.result() == Secret(WORD)
    assert repr(await App.job(app, job.id).result()) == "Secret(***)"


async def test_a_model_may_hold_them(app: App) -> None:
    @app.task(name="change")
    async def change(login: Login) -> Login:
        password = SecretStr(login.password.get_secret_value()[::-1])
        return Login(user=login.user, password=password, token=login.token)

    heard: list[Login] = []
    logins = app.topic("logins", Login)

    @logins.subscribe(group="audit", start="beginning")
    async def audit(login: Login) -> None:
        heard.append(login)

    login = Login(user="ada", password=SecretStr(WORD), token=Secret(WORD))
    job, event = await change.enqueue(login), await logins.publish(login)
    plain = await logins.publish({"user": "ada", "password": WORD, "token": WORD})  # type: ignore[arg-type]
    contents = await app.admin.contents(job.id)
    assert contents is not None
    assert contents.args == ({"user": "ada", "password": "***", "token": "***"},)
    await drain(app)
    assert (await job.result()).password.get_secret_value() == WORD[::-1]
    assert heard == [login, login]
    for id in (job.id, event, plain):
        assert WORD not in repr(await app.admin.contents(id))


async def test_unique_jobs_are_told_apart_by_its_value(app: App) -> None:
    @app.task(name="login", unique=True)
    async def login(password: Secret[str]) -> None: ...

    first = await login.enqueue(Secret(WORD))
    assert (await login.enqueue(Secret(WORD))).id == first.id
    assert (await login.enqueue(WORD)).id == first.id  # type: ignore[arg-type]
    assert (await login.enqueue(Secret("other"))).id != first.id


async def test_neither_the_dead_letter_nor_the_logs_show_it(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    @app.task(name="login", retry=RetryPolicy.none())
    async def login(user: str, password: Secret[str]) -> None:
        raise ValueError(f"{user} has no account, with {password}")

    job = await login.enqueue("ada", Secret(WORD))
    await drain(app)
    [letter] = await app.admin.dead()
    info = await job.info()
    assert info.error == "ada has no account, with Secret(***)"
    for text in (
        repr(letter),
        repr(info),
        str(info.traceback),
        caplog.text,
        repr(login.call("a", Secret(WORD))),
    ):
        assert WORD not in text
    contents = await app.admin.contents(job.id)
    assert contents is not None
    assert contents.args == ("ada", "***")


async def test_one_of_the_wrong_type_is_refused_without_being_quoted(app: App) -> None:
    @app.task(name="pay")
    async def pay(pin: Secret[int]) -> None: ...

    with pytest.raises(InvalidPayload, match="The value of a Secret is no `int`") as refused:
        await pay.enqueue(Secret(WORD))  # type: ignore[arg-type]
    assert WORD not in str(refused.value)


async def test_one_that_no_longer_fits_is_dead_and_still_not_quoted() -> None:
    app, later = App("memory://vault"), App("memory://vault")

    @app.task(name="pay")
    async def pay(pin: Secret[str]) -> None: ...

    @later.task(name="pay")
    async def pay_later(pin: Secret[int]) -> None: ...

    async with app, later:
        job = await pay.enqueue(Secret(WORD))
        await drain(later)
        info = await job.info()
        assert (info.status, info.reason) == (JobStatus.DEAD, "invalid")
        assert "The value of a Secret is no `int` - at `pin`" in info.error
        assert WORD not in repr(info)


async def test_other_arguments_given_later_are_masked_as_well(app: App) -> None:
    @app.task(name="login")
    async def login(password: Secret[str]) -> None: ...

    job = await login.with_(delay=60).enqueue(Secret("other"))
    assert await app.admin.edit(job.id, args=[WORD])
    contents = await app.admin.contents(job.id)
    assert contents is not None
    assert contents.args == ("***",)


def test_json_cannot_hold_one_by_accident() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(Secret(WORD))

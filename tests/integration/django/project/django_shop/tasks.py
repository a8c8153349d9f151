"""The tasks of the shop. Workers find this module because `django_shop` is an installed app."""

from __future__ import annotations

import logging
from typing import Any

import django

from django_shop.models import Order
from headrace import RetryLater

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task
def add(a: int, b: int) -> int:
    return a + b


@task
def warn() -> None:
    logging.getLogger("django.shop").warning("disk is nearly full")


@task
async def aadd(a: int, b: int) -> int:
    return a + b


@task(queue_name="mails", priority=50)
def mail(order: int, *, text: str = "thank you") -> str:
    return f"{order}: {text}"


@task
def pay(order: int) -> str:
    """Uses the database from a thread of the worker."""
    Order.objects.filter(pk=order).update(state="paid")
    return Order.objects.get(pk=order).state


@task
async def apay(order: int) -> str:
    """Uses the database from a coroutine."""
    await Order.objects.filter(pk=order).aupdate(state="paid")
    return (await Order.objects.aget(pk=order)).state


@task(takes_context=True)
def attempts(context: Any, wanted: int) -> list[Any]:
    """Fails until its attempt number `wanted`."""
    if context.attempt < wanted:
        raise RetryLater(0)
    result = context.task_result
    return [result.id, context.attempt, len(result.errors), [bool(worker) for worker in result.worker_ids]]


@task
def fail(text: str) -> None:
    raise LookupError(text)


@task
async def afail(text: str) -> None:
    raise LookupError(text)


@task
def lazy() -> object:
    return object()

"""The tasks of the shop. Workers find this module because `orders` is an installed app."""

import django

from .models import Order

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task
def charge(order_id: int) -> str:
    """Takes the money, then sends a receipt."""
    order = Order.objects.get(pk=order_id)
    order.state = "paid"
    order.save()
    send_receipt.using(priority=-50).enqueue(order_id, order.customer)
    return order.state


@task
async def send_receipt(order_id: int, customer: str) -> str:
    return f"{customer}: thank you for order {order_id}"

"""The page of the shop: the orders, and a form for a new one."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from .models import Order
from .tasks import charge


def shop(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        place_order(request.POST["customer"])
        return redirect("shop")
    return render(request, "shop.html", {"orders": Order.objects.order_by("-pk")[:20]})


@transaction.atomic
def place_order(customer: str) -> None:
    """The order and its job exist together, or neither exists."""
    order = Order.objects.create(customer=customer)
    charge.enqueue(order.pk)

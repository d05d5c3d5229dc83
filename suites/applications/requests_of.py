"""The loop of the applications in Python: answers to standard output, median and 99th percentile of a request to standard
error. Arguments: address, number of requests."""

import sys
import time

def one(number):
    return number % 200 + 1


def two(number):
    return [number % 50 + 1, number % 60 + 101]


def answer(customer, orders, eager, total):
    amounts = ",".join(str(order.amount) for order in orders)
    return f"{customer.name} {customer.visits} {amounts} {','.join(str(len(each)) for each in eager)} {total}"


def run(request):
    times = []
    for number in range(int(sys.argv[2])):
        begun = time.perf_counter()
        said = request(number)
        times.append(1000 * (time.perf_counter() - begun))
        print(number, said)
    times.sort()
    print(f"{times[len(times) // 2]:.2f} {times[len(times) * 99 // 100]:.2f}", file=sys.stderr)

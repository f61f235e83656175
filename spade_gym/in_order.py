"""How work on many programs is spread over threads while its results stay in order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def in_order(function: Callable[[_In], _Out], items: Iterable[_In], *, jobs: int) -> Iterator[_Out]:
    """Apply a function to items in several threads and yield the results in the items' order.

    The programs run in processes of their own, so threads do keep several processors busy. The threads are
    daemons: after Ctrl-C nothing waits for the checks that are under way.
    """
    if jobs <= 1:
        yield from map(function, items)
        return
    tasks: queue.SimpleQueue[tuple[Future[_Out], _In]] = queue.SimpleQueue()
    futures: list[Future[_Out]] = []
    for item in items:
        futures.append(Future())
        tasks.put((futures[-1], item))

    def work() -> None:
        while True:
            try:
                future, item = tasks.get_nowait()
            except queue.Empty:
                return
            try:
                future.set_result(function(item))
            except BaseException as error:  # carried over to the thread that asks for the result
                future.set_exception(error)

    for _ in range(min(jobs, len(futures))):
        threading.Thread(target=work, daemon=True).start()
    for future in futures:
        yield future.result()

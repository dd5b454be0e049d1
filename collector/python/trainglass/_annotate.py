"""What `@annotate("name")` makes of a function, a generator or a coroutine."""

from __future__ import annotations

import functools

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Steps:
    """Runs a generator or coroutine with the range open while it runs, and closed while
    it is suspended: other code of the thread is not its child."""

    def __init__(self, annotation: Any, inner: Any) -> None:
        self._annotation, self._inner = annotation, inner

    def __iter__(self) -> _Steps:
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        with self._annotation:
            return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        with self._annotation:
            return self._inner.throw(*error)

    def close(self) -> Any:
        with self._annotation:
            return self._inner.close()


class _AsyncSteps:
    """The same for an asynchronous generator: each of its awaits is one."""

    def __init__(self, annotation: Any, inner: Any) -> None:
        self._annotation, self._inner = annotation, inner

    def __aiter__(self) -> _AsyncSteps:
        return self

    def _around(self, awaitable: Any) -> _Steps:
        return _Steps(self._annotation, awaitable.__await__())

    def __anext__(self) -> _Steps:
        return self._around(self._inner.__anext__())

    def asend(self, value: Any) -> _Steps:
        return self._around(self._inner.asend(value))

    def athrow(self, *error: Any) -> _Steps:
        return self._around(self._inner.athrow(*error))

    def aclose(self) -> _Steps:
        return self._around(self._inner.aclose())


def decorate(annotation: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with the annotation around everything that it runs."""
    import inspect  # a third of what importing the package would cost

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*arguments: Any, **words: Any) -> Any:
            return await _Steps(annotation, function(*arguments, **words))

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def wrapper(*arguments: Any, **words: Any) -> Any:
            return _AsyncSteps(annotation, function(*arguments, **words))

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*arguments: Any, **words: Any) -> Any:
            return (yield from _Steps(annotation, function(*arguments, **words)))

    else:

        @functools.wraps(function)
        def wrapper(*arguments: Any, **words: Any) -> Any:
            with annotation:
                return function(*arguments, **words)

    return wrapper
